"""Masks, written out cell by cell. 1 = may attend."""

import torch

from tfcli.layers.masks import attention_mask, causal_mask

CPU = torch.device("cpu")


def as_rows(mask: torch.Tensor) -> list[str]:
    return ["".join("1" if cell else "0" for cell in row) for row in mask]


def test_as_many_queries_as_keys_give_the_lower_triangle():
    assert as_rows(causal_mask(3, 3)) == ["100", "110", "111"]


def test_fewer_queries_are_the_last_rows_of_the_triangle():
    """Two queries after three cached keys stand at positions 3 and 4 of 5."""
    assert as_rows(causal_mask(2, 5)) == ["11110", "11111"]
    assert as_rows(causal_mask(1, 4)) == ["1111"]


def test_padding_hides_keys_and_not_queries():
    padding = torch.tensor([[True, True, True], [True, False, False]])
    mask = attention_mask(padding, 2, 3, causal=False, device=CPU)
    assert mask.shape == (2, 1, 1, 3)
    assert as_rows(mask[:, 0, 0]) == ["111", "100"]


def test_padding_and_the_future_together():
    """Left padding: the first query of the second sequence sees nothing at all."""
    padding = torch.tensor([[True, True, False], [False, True, True]])
    mask = attention_mask(padding, 3, 3, causal=True, device=CPU)
    assert mask.shape == (2, 1, 3, 3)
    assert as_rows(mask[0, 0]) == ["100", "110", "110"]
    assert as_rows(mask[1, 0]) == ["000", "010", "011"]


def test_a_single_causal_query_sees_every_key_and_needs_no_mask():
    assert attention_mask(None, 1, 7, causal=True, device=CPU) is None
    padding = torch.tensor([[False, True, True]])
    assert as_rows(attention_mask(padding, 1, 3, causal=True, device=CPU)[0, 0]) == ["011"]


def test_no_reason_no_mask():
    assert attention_mask(None, 3, 3, causal=False, device=CPU) is None
