"""The stream of tokens over its shards: where documents begin, and what is read from where."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfcli.data.dataset import TokenStreamView


def test_offsets_of_a_shard_follow_those_of_the_one_before() -> None:
    # Documents of 2 and 3 tokens, then one of 4, then 2 and 2: places 0, 2 | 5 | 9, 11, and the end, 13.
    shards = [np.zeros(5, dtype=np.uint16), np.zeros(4, dtype=np.uint16), np.zeros(4, dtype=np.uint16)]
    view = TokenStreamView(shards, [np.array([0, 2, 5]), np.array([0, 4]), np.array([0, 2, 4])])
    assert view.offsets.tolist() == [0, 2, 5, 9, 11, 13]
    assert len(view) == 13


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 44), st.integers(1, 12)), min_size=1, max_size=6),
)
def test_windows_are_read_across_shards_and_filled_up(shards: list[int], wanted: list[tuple[int, int]]) -> None:
    """Token n of the stream is 100 + n, whichever shard it lies in."""
    total = sum(shards)
    stream = 100 + np.arange(total, dtype=np.uint16)
    windows = [(start % total, min(length, total - start % total)) for start, length in wanted]
    starts, lengths = np.array(windows).T
    read = TokenStreamView(np.split(stream, np.cumsum(shards)[:-1])).padded(starts, lengths, 7)
    longest = max(length for _, length in windows)
    expected = [[100 + start + n if n < length else 7 for n in range(longest)] for start, length in windows]
    assert read.tolist() == expected
    assert read.dtype == np.int64
