"""Ranges as Python has them, and parts of a record with their positions."""

import numpy as np
import pytest

from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.choice import cropped, positions_of
from tfcli.records.arrays import frozen

TOKENS = tuple("abcdef")


def record() -> AttentionRecord:
    """Weight q.k of query q and key k, in tenths: which cell it is can be read in it."""
    cells = np.arange(6)[:, None] + np.arange(6)[None, :] / 10
    return AttentionRecord("encoder_self", TOKENS, TOKENS, frozen(cells[None, None]), scores=frozen(-cells[None, None]))


@pytest.mark.parametrize("text", ["0:6", ":", "2:4", "-2:", ":-1", "3:", " 1:2 ", "-6:6"])
def test_ranges_are_python_s(text: str):
    first, _, last = text.partition(":")
    expected = range(6)[slice(int(first) if first.strip() else None, int(last) if last.strip() else None)]
    assert list(positions_of("--rows", text, 6)) == list(expected)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("3", "--rows '3' is no range; write --rows a:b, from position a up to b, such as 0:20"),
        ("a:b", "--rows 'a:b' is no range"),
        ("0:6:2", "is no range"),
        ("4:4", "--rows 4:4 holds nothing: there are 6; choose within 0:6"),
        ("5:2", "--rows 5:2 holds nothing"),
        ("-1:-3", "--rows -1:-3 holds nothing"),
        ("6:", "--rows 6: holds nothing"),
        ("2:7", "--rows 2:7 lies outside the 6 there are; choose within 0:6"),
        ("-7:3", "--rows -7:3 lies outside the 6"),
    ],
)
def test_what_is_empty_or_outside_is_refused(text: str, sentence: str):
    with pytest.raises(UsageError) as refused:
        positions_of("--rows", text, 6)
    assert sentence in str(refused.value)


def test_a_part_keeps_its_tokens_and_positions():
    part = cropped(record(), "2:4", "-2:")
    assert (part.query_tokens, part.key_tokens) == (("c", "d"), ("e", "f"))
    assert (part.rows, part.columns) == ((2, 3), (4, 5))
    np.testing.assert_allclose(part.weights[0, 0], [[2.4, 2.5], [3.4, 3.5]])
    assert part.scores is not None
    np.testing.assert_allclose(part.scores[0, 0], [[-2.4, -2.5], [-3.4, -3.5]])


@pytest.mark.parametrize(
    ("columns", "kept"), [("4:6", (0, 1, 4, 5)), ("1:3", (0, 1, 2)), ("0:1", (0, 1)), (None, (0, 1, 2, 3, 4, 5))]
)
def test_the_first_keys_stay(columns: str | None, kept: tuple[int, ...]):
    assert cropped(record(), None, columns, first=2).columns == kept


def test_the_whole_is_the_record_itself():
    whole = record()
    assert cropped(whole) is whole
    assert cropped(whole, "0:6", ":", first=3) is whole
