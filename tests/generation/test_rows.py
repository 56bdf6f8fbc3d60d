"""Which row goes on with which text."""

from hypothesis import given
from hypothesis import strategies as st

from tfcli.generation.kv_cache import least_moves, shared_sources

ROWS = st.lists(st.integers(0, 9), min_size=1, max_size=8)


@given(ROWS, st.integers(0, 4))
def test_as_many_texts_as_possible_stay_where_they_are(rows: list[int], first: int):
    """Every text gets one row; a row that some text comes from, and that is given away, keeps a text of its own."""
    order = least_moves(rows, first)
    assert sorted(order) == list(range(len(rows)))
    for place, text in enumerate(order):
        assert rows[text] == place + first or place + first not in rows


def test_what_has_ended_is_filled_from_the_end():
    """Of five rows, 1 and 3 have ended: row 4 moves into the gap, and 0 and 2 stay."""
    going = [0, 2, 4]
    assert [going[text] for text in least_moves(going)] == [0, 4, 2]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_shared_sources_serve_every_row(sources: list[int]):
    shown = shared_sources(sources)
    each = len(sources) // len(shown)
    assert [one for one in shown for _ in range(each)] == sources


def test_sources_with_unequal_rows_are_not_shared():
    assert shared_sources([1, 1, 0, 0]) == [1, 0]
    assert shared_sources([1, 1, 0]) == [1, 1, 0]
    assert shared_sources([1, 0, 1, 0]) == [1, 0, 1, 0]
