"""Masks, written out cell by cell. 1 = may attend."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.layers.attention import attention_mask, causal_mask, window_mask

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


def positions_of(target: int, source: int) -> tuple[range, range]:
    """Where queries and keys stand: the queries are the last of the positions."""
    return range(source - target, source), range(source)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 9).flatmap(lambda source: st.tuples(st.integers(1, source), st.just(source))),
    st.booleans(),
    st.none() | st.integers(1, 12),
    st.none() | st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=3),
)
def test_a_mask_is_its_definition_cell_by_cell(lengths, causal, window, padding):
    """A key is seen when it is real, less than `window` away, and in a causal model not later than the query."""
    target, source = lengths
    real = None if padding is None else torch.tensor(padding)[:, :source]
    mask = attention_mask(real, target, source, causal=causal, window=window, device=CPU)
    rows = 1 if real is None else len(real)
    whole = (
        torch.ones(rows, 1, target, source, dtype=torch.bool) if mask is None else mask.expand(rows, 1, target, source)
    )
    queries, keys = positions_of(target, source)
    for row in range(rows):
        for t, query in enumerate(queries):
            for s, key in enumerate(keys):
                seen = real is None or bool(real[row, key])
                seen = seen and (key <= query or not causal)
                seen = seen and (window is None or abs(query - key) < window)
                assert bool(whole[row, 0, t, s]) == seen, (query, key)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.none() | st.integers(1, 8), st.booleans())
def test_a_mask_with_a_cache_is_the_last_rows_of_the_whole_one(target, before, window, causal):
    """Queries that come later see what they would have seen had all been asked at once."""
    source = target + before
    part = attention_mask(None, target, source, causal=causal, window=window, device=CPU)
    whole = attention_mask(None, source, source, causal=causal, window=window, device=CPU)
    everything = torch.ones(1, 1, source, source, dtype=torch.bool)
    whole = everything if whole is None else whole
    part = everything[:, :, :target] if part is None else part
    assert torch.equal(part.expand(1, 1, target, source), whole.expand_as(everything)[:, :, before:])


def test_a_window_of_two_before_and_after():
    """Keys less than 2 away: the token itself and its neighbours."""
    assert as_rows(window_mask(4, 4, 2)) == ["1100", "1110", "0111", "0011"]


def test_a_causal_window_of_two_is_a_token_and_the_one_before_it():
    mask = attention_mask(None, 4, 4, causal=True, window=2, device=CPU)
    assert as_rows(mask[0, 0]) == ["1000", "1100", "0110", "0011"]


def test_a_window_slides_along_with_the_cache():
    """A single query at position 4 of 5 with a window of 3 sees positions 2, 3 and 4."""
    assert as_rows(attention_mask(None, 1, 5, causal=True, window=3, device=CPU)[0, 0]) == ["00111"]


def test_a_window_as_wide_as_the_text_needs_no_mask():
    assert attention_mask(None, 4, 4, causal=False, window=4, device=CPU) is None
    assert as_rows(attention_mask(None, 4, 4, causal=False, window=3, device=CPU)[0, 0])[0] == "1110"
