"""How a text is cut, and how its bytes are spread over the cuts."""

import numpy as np

from tfcli.data.dataset import TokenStreamView
from tfcli.evaluation.evaluate import _LAST
from tfcli.evaluation.windows import FEWEST_DOCUMENTS, extent, text_cells
from tfcli.records.dataset import PartCounts


def view(*lengths: int) -> TokenStreamView:
    offsets = np.cumsum([0, *lengths])
    return TokenStreamView([np.zeros(offsets[-1], np.uint16)], [offsets])


def test_many_documents_are_cells_of_their_own():
    cells = text_cells(view(*[3] * FEWEST_DOCUMENTS))
    assert (cells.kind, cells.units, cells.document[-1] + 1, len(cells)) == ("documents", 30, 30, 30)
    assert cells.firsts is not None
    assert cells.firsts[:3].tolist() == [0, 3, 6]


def test_few_documents_are_cut_into_stretches_and_still_told_apart():
    """Two documents of 40 and 30 tokens, in stretches of 16, the shortest: 0, 16, 32 | 48, 64, with the second
    document's beginning at 40 between."""
    cells = text_cells(view(40, 30))
    assert cells.firsts is not None
    assert cells.firsts.tolist() == [0, 16, 32, 40, 48, 64]
    assert cells.document.tolist() == [0, 0, 0, 1, 1, 1]
    assert cells.unit.tolist() == [0, 1, 2, 2, 3, 4]
    assert (cells.kind, cells.units, cells.document[-1] + 1) == ("stretches", 5, 2)


def test_one_long_text_has_a_hundred_stretches_and_none_is_longer_than_1024():
    assert text_cells(view(10_000)).units == 100
    assert text_cells(view(1_024_000)).units == 1000


def test_what_the_tokenizer_gives_back_whole_is_exact():
    """é is two bytes and one character."""
    spread = extent(["thé", "a"], PartCounts(2, 0, bytes=5, characters=4, unknown=0))
    assert (spread.bytes.tolist(), spread.characters.tolist(), spread.exact) == ([4, 1], [3, 1], True)


def test_what_it_loses_is_spread_like_the_rest():
    """Of 10 bytes and 8 characters 5 and 4 are given back: each cell has twice its own."""
    spread = extent(["thé", "a"], PartCounts(2, 0, bytes=10, characters=8, unknown=0))
    assert (spread.bytes.tolist(), spread.characters.tolist(), spread.exact) == ([8, 2], [6, 2], False)


def test_buckets_end_at_powers_of_two_and_half_way_between():
    lengths = np.array([0, 1, 8, 9, 12, 13, 16, 17, 24, 25, 32, 33, 48, 49])
    assert np.searchsorted(_LAST, lengths).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
