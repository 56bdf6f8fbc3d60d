"""The best tokens are those of `topk`."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.generation.beam_search import best_tokens


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 700), st.integers(1, 9), st.integers(0, 999))
def test_they_are_those_of_topk(rows: int, size: int, count: int, seed: int):
    logits = torch.randn(rows, size, generator=torch.Generator().manual_seed(seed))
    values, ids = best_tokens(logits, count)
    expected = logits.topk(min(count, size))
    assert torch.equal(values, expected.values)
    assert torch.equal(ids, expected.indices)


def test_tokens_that_are_ruled_out_come_last():
    """Of 1,000 tokens two may come; the third value is nobody's."""
    logits = torch.full((1, 1000), -torch.inf)
    logits[0, 130], logits[0, 999] = 1.0, 2.0
    values, ids = best_tokens(logits, 3)
    assert ids[0, :2].tolist() == [999, 130]
    assert values[0].tolist() == [2.0, 1.0, -torch.inf]


@pytest.mark.parametrize("first", [3, 700])
def test_of_equals_the_first_is_the_one_best(first: int):
    logits = torch.zeros(1, 1000)
    logits[0, [first, first + 100, first + 200]] = 1.0
    assert best_tokens(logits, 1)[1].item() == first
