"""Documents as pieces of text that are encoded together: many at a time, none too long for memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfcli.corpora.source import Document, Pair, Part, Text
from tfcli.tokenization.pieces import PIECE_CHARACTERS, pieces

BATCH_CHARACTERS = 2**20
"""Pieces are encoded together until they hold so many characters: work for all cores in some 100 MB."""


@dataclass(frozen=True)
class Piece:
    """A stretch of one side of a document; `side` is "" for text, else "source" or "target"."""

    part: Part
    side: str
    text: str
    first: bool
    last: bool


def document_pieces(documents: Iterable[tuple[Part, Document]], limit: int = PIECE_CHARACTERS) -> Iterator[Piece]:
    """The pieces of every document in order; of a pair the source before the target.

    A document of more than `limit` characters is cut where a line ends, as in training a tokenizer.
    """
    for part, document in documents:
        if isinstance(document, Pair):
            yield from _side_pieces(part, "source", document.source, limit)
            yield from _side_pieces(part, "target", document.target, limit)
        else:
            yield from _side_pieces(part, "", document, limit)


def batched(stream: Iterable[Piece], characters: int = BATCH_CHARACTERS) -> Iterator[list[Piece]]:
    """Group pieces into lists of about `characters`, at most one piece over."""
    batch: list[Piece] = []
    held = 0
    for piece in stream:
        batch.append(piece)
        # An empty text counts as well: a list of them must end, too.
        held += len(piece.text) + 1
        if held >= characters:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _side_pieces(part: Part, side: str, text: Text, limit: int) -> Iterator[Piece]:
    before: str | None = None
    first = True
    for piece in pieces(text, limit):
        if before is not None:
            yield Piece(part, side, before, first=first, last=False)
            first = False
        before = piece
    assert before is not None
    yield Piece(part, side, before, first=first, last=True)
