"""A batch in numbers, and some of its rows."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_pairs import batches, numbered
from tfcli.data.batch import IGNORED, Batch

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=12)


def test_places_and_padding_are_of_both_sides() -> None:
    # Sources of 2 and 4 tokens in 2 x 4 places, decoder inputs of 3 and 2 in 2 x 3.
    batch = next(batches(numbered([(3, 1), (1, 2)])).whole())
    assert (batch.places, batch.tokens, batch.padding) == (14, 11, 3)
    assert batch.target_tokens == 5


def test_without_row_tokens_every_place_has_a_token() -> None:
    ids = np.ones((2, 3), dtype=np.int64)
    batch = Batch(ids, np.where([[True, False, False]], ids, IGNORED))
    assert (batch.places, batch.tokens, batch.padding, batch.target_tokens) == (6, 6, 0, 2)
    row = batch.rows(slice(1, 2))
    assert (row.places, row.tokens, row.padding, row.target_tokens) == (3, 3, 0, 1)
    assert row.padding_mask is None and row.decoder_input_ids is None


@given(PAIRS, st.integers(0, 12), st.integers(0, 12))
def test_rows_of_a_batch_are_a_batch(sizes: list[tuple[int, int]], one: int, other: int) -> None:
    (batch,) = batches(numbered(sizes), batch_size=len(sizes), context=20).whole()
    cuts = [0, *sorted((one, other)), len(sizes)]
    shares = [batch.rows(slice(first, last)) for first, last in pairwise(cuts)]
    for name in ("input_ids", "labels", "padding_mask", "decoder_input_ids", "row_tokens"):
        assert np.array_equal(np.concatenate([getattr(share, name) for share in shares]), getattr(batch, name))
    for count in ("places", "tokens", "padding", "target_tokens"):
        assert sum(getattr(share, count) for share in shares) == getattr(batch, count)
    for share in shares:
        assert share.padding_mask is not None
        assert share.tokens == share.padding_mask.sum() + share.target_tokens
