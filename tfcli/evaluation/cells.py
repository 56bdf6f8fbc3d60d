"""The units of a block bootstrap: a text is cut into documents, and where these are few, into stretches that
resamples are made of.

Shape legend: C cells, in the order of the text.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tfcli.data.views import PairsView, SequencesView, TokenStreamView
from tfcli.records.dataset import PartCounts
from tfcli.records.evaluation import Unit
from tfcli.tokenization.stream import INCOMPLETE
from tfcli.tokenization.tokenizer import Tokenizer

FEWEST_DOCUMENTS = 30
"""With fewer documents, resamples are made of stretches of text (a block bootstrap; Carlstein 1986)."""

_SHORTEST, _LONGEST = 16, 1024
_STRETCHES = 100
"""Wanted; each of 16 to 1,024 tokens."""


@dataclass(frozen=True, eq=False)
class Cells:
    """`firsts` are the places in the stream where cells begin (of pairs: none, a cell is a pair); `document` and
    `unit` are the numbers of what each belongs to.

    Shape: each (C,)
    """

    firsts: NDArray[np.int64] | None
    document: NDArray[np.int64]
    unit: NDArray[np.int64]
    kind: Unit

    def __len__(self) -> int:
        return len(self.document)

    @property
    def documents(self) -> int:
        """Documents, or pairs."""
        return int(self.document[-1]) + 1

    @property
    def units(self) -> int:
        """What there is to draw from."""
        return int(self.unit[-1]) + 1


@dataclass(frozen=True, eq=False)
class Extent:
    """The text of each cell, in UTF-8 bytes and in characters. `exact`: the tokenizer gives all of it back.

    Else the whole is known from when it was read, and how it is spread over cells by what is given back.

    Shape: bytes, characters (C,)
    """

    bytes: NDArray[np.float64]
    characters: NDArray[np.float64]
    exact: bool


def text_cells(view: TokenStreamView) -> Cells:
    """Documents; cut into stretches of one length as well, where there are few."""
    offsets = view.offsets
    documents = np.arange(len(offsets) - 1)
    if len(documents) >= FEWEST_DOCUMENTS:
        return Cells(offsets[:-1], documents, documents, "documents")
    stretch = min(max(len(view) // _STRETCHES, _SHORTEST), _LONGEST)
    firsts = np.unique(np.concatenate([offsets[:-1], np.arange(offsets[0], len(view), stretch)]))
    units = (firsts - offsets[0]) // stretch
    return Cells(firsts, np.searchsorted(offsets, firsts, side="right") - 1, units, "stretches")


def pair_cells(pairs: PairsView) -> Cells:
    """Pairs."""
    numbers = np.arange(len(pairs))
    return Cells(None, numbers, numbers, "pairs")


def text_extent(
    view: TokenStreamView, cells: Cells, tokenizer: Tokenizer, counts: PartCounts, unscored: NDArray[np.int64]
) -> Extent:
    """The text of each cell of a part whose counts are known, without that of the tokens that nothing predicts.

    Args:
        unscored: where these tokens stand, each at the beginning of a cell.
    """
    assert cells.firsts is not None
    lengths = np.diff(np.append(cells.firsts, len(view)))
    ids = (view.padded(cells.firsts[n : n + 1], lengths[n : n + 1], 0)[0].tolist() for n in range(len(cells)))
    whole = extent([tokenizer.decode(one) for one in ids], counts)
    left_out = np.isin(cells.firsts, unscored)
    tokens = view.padded(cells.firsts, np.ones_like(lengths), 0)[:, 0].tolist()
    # A character that a token only begins is that of the tokens that end it.
    first = [
        tokenizer.decode([one]).rstrip(INCOMPLETE) if out else "" for one, out in zip(tokens, left_out, strict=True)
    ]
    return replace(
        whole,
        bytes=whole.bytes - [len(text.encode()) for text in first],
        characters=whole.characters - [len(text) for text in first],
    )


def extent(texts: list[str], counts: PartCounts) -> Extent:
    """The extent of cells that the tokenizer gives back so."""
    sizes = np.array([(len(text.encode()), len(text)) for text in texts], np.float64)
    totals = np.array([counts.bytes, counts.characters], np.float64)
    given_back = sizes.sum(0)
    exact = bool((given_back == totals).all())
    sizes *= totals / np.maximum(given_back, 1)
    return Extent(sizes[:, 0], sizes[:, 1], exact)


def without_frame(view: SequencesView, start: tuple[int, ...]) -> list[list[int]]:
    """Every sequence without the tokens that begin and the one that ends it."""
    return [view.sequence(number)[len(start) : -1].tolist() for number in range(len(view))]
