"""Chunks of a corpus: pieces of documents, encoded apart from each other.

A chunk does not depend on who encodes it. It holds the ids, where documents end in them, and what each counts."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, count, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from tfcli.corpora import PARTS, PIECE_CHARACTERS, Document, Kind, Pair, Part, batched, pieces
from tfcli.data.chunk_files import opened_chunk
from tfcli.data.shards import SIDES, token_dtype
from tfcli.errors import UsageError, shortened
from tfcli.files import replacing
from tfcli.records.dataset import SkippedRecords

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.tokenization.tokenizer import Tokenizer

_GROWTH = 64  # a chunk is a batch; behind every so many chunks, one batch more: 11,000 chunks of a terabyte
TOKENIZER_NAME = "tokenizer.json"
Progress = Callable[[int, int], None] | None  # receives the documents and tokens done so far


@dataclass(frozen=True)
class Piece:
    """A stretch of one side of a document; `side` is "" for text, else "source" or "target"."""

    part: Part
    side: str
    text: str
    number: int  # its place in the side, from 0
    last: bool


def document_pieces(documents: Iterable[tuple[Part, Document]], limit: int = PIECE_CHARACTERS) -> Iterator[Piece]:
    """The pieces of every document in order; of a pair the source before the target. A document of more than `limit`
    characters is cut where a line ends, as in training a tokenizer."""
    for part, document in documents:
        for side, text in (vars(document) if isinstance(document, Pair) else {"": document}).items():
            stretches: Iterator[str | None] = chain(pieces(text, limit), [None])
            for number, (piece, after) in enumerate(pairwise(stretches)):
                assert piece is not None
                yield Piece(part, side, piece, number, last=after is None)


def chunks_of(stream: Iterable[Piece]) -> Iterator[list[list[Piece]]]:
    """The batches of each chunk, which do not depend on who encodes it."""
    batches, numbers = batched(stream, lambda piece: piece.text), count()
    while chunk := list(islice(batches, 1 + next(numbers) // _GROWTH)):
        yield chunk


@dataclass(frozen=True)
class Share:
    """The chunks of one of several processes or machines: of every `of` chunks the one at place `number`, from 0."""

    number: int = 0
    of: int = 1

    @classmethod
    def of_text(cls, text: str) -> Share:
        """The share that a text such as "2/8" names, counted from 1.

        >>> Share.of_text("2/8")
        Share(number=1, of=8)
        """
        found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise UsageError(f"--shard {shortened(text)!r} is no share", "write 1/8 to 8/8 for eight machines")
        return cls(int(found[1]) - 1, int(found[2]))


def chunk_name(source: int, number: int) -> str:
    """The file of a source's n-th chunk."""
    return f"{source}-{number:06d}.npz"


def encoded_chunks(
    division: TrainValidationSplit, tokenizer: Tokenizer, share: Share, is_there: Callable[[str], bool], is_whole: bool
) -> Iterator[tuple[str, EncodedChunk | None] | int]:
    """The chunks of a share by their names, None for one that `is_there`; behind those of each source, how many it has
    in all. The text is read to its end whatever the share, since a chunk begins where the one before it has ended.
    `is_whole`: both parts must hold text."""
    kind, keyed = division.source.kind, division.may_overlap
    streams = [one.split.divided for one in division.mixture] or [division.parts if is_whole else division.divided]
    for source, documents in enumerate(streams):
        number = -1
        for number, chunk in enumerate(chunks_of(document_pieces(documents()))):
            if number % share.of == share.number:
                name = chunk_name(source, number)
                yield name, None if is_there(name) else EncodedChunk(kind, tokenizer, chunk, keyed=keyed)
        yield number + 1


Encoded = tuple[tuple[int, ...], SkippedRecords]  # the number of all chunks of each source, and what could not be read


def encode_share(
    division: TrainValidationSplit, tokenizer: Tokenizer, folder: Path, share: Share, tell: Progress, *, is_whole: bool
) -> Encoded:
    """Encode the chunks of a share that are not in `folder` yet, and tell of each."""
    decide(division, folder)
    done, numbers = np.zeros(2, np.int64), []
    for found in encoded_chunks(division, tokenizer, share, lambda name: (folder / name).exists(), is_whole=is_whole):
        if isinstance(found, int):
            numbers.append(found)
            continue
        name, chunk = found
        if chunk is not None:
            chunk.save(folder / name)
        if tell:
            done += counted(folder / name)
            tell(*done.tolist())
    return tuple(numbers), division.skipped()


def decide(division: TrainValidationSplit, folder: Path) -> None:
    """Decide what is left out, once for all processes that share `folder`, and keep it beside the chunks."""
    path, deciding = folder / "left_out.npz", [one for one in (division.cleaning, division.copies) if one]
    if path.is_file():
        with opened_chunk(path) as arrays:
            for one in deciding:
                one.remember(arrays)
    elif deciding:
        found = dict(chain.from_iterable(one.decided().items() for one in deciding))
        with replacing(path, durable=False) as temporary, temporary.open("wb") as file:
            np.savez(file, **found)  # type: ignore[arg-type]


COUNTED = ("documents", "tokens", "bytes", "characters", "unknown")  # what a part is told to hold
SUMS = (*COUNTED, "pieces", "words", "squares", "products", "word_squares")


class EncodedChunk:
    """The ids of some batches, where documents end in them, and the sums of each document; with `keyed`, a hash of its
    content, too: the sum over its pieces, which are the same wherever the same text stands."""

    def __init__(self, kind: Kind, tokenizer: Tokenizer, batches: Iterable[Sequence[Piece]], *, keyed: bool) -> None:
        self._tokenizer, self._dtype, self._last_side = tokenizer, token_dtype(tokenizer.vocab_size), SIDES[kind][-1]
        places = [(part, side) for part in PARTS for side in SIDES[kind]]
        self._ids = {place: array("H" if self._dtype.itemsize == 2 else "I") for place in places}
        self._ends: dict[tuple[Part, str], list[int]] = {place: [] for place in places}
        self._sums = {part: [[0] * len(SUMS)] for part in PARTS}
        self._keys = {part: [0] for part in PARTS if keyed}
        for batch in batches:
            self._add(batch)

    def _add(self, batch: Sequence[Piece]) -> None:
        roles = self._tokenizer.roles
        end = list(roles.end)
        for piece, ids in zip(batch, self._tokenizer.encode_batch([piece.text for piece in batch]), strict=True):
            place = piece.part, piece.side
            stored, rows = self._ids[place], self._sums[piece.part]
            if piece.number == 0:
                stored.fromlist(list(roles.stored_start(piece.side)))
            stored.fromlist(ids)
            size, data, counted = len(ids), piece.text.encode(), piece.side != "source"
            words, tokens = _count_words(piece.text, data), size
            if piece.last:
                stored.fromlist(end)
                tokens += len(end)
                self._ends[place].append(len(stored))
            texts = counted * piece.last, tokens, counted * len(data), counted * len(piece.text)
            new = *texts, self._tokenizer.count_unknown(ids), size, words, size * size, size * words, words * words
            rows[-1] = [one + more for one, more in zip(rows[-1], new, strict=True)]
            keys = self._keys.get(piece.part)
            if keys:
                seed = 2 * piece.number + counted  # of a pair, either side has its own
                keys[-1] = (keys[-1] + xxh3_64_intdigest(data, seed)) % 2**64
            if piece.last and piece.side == self._last_side:
                rows.append([0] * len(SUMS))
                if keys:
                    keys.append(0)

    def content(self) -> bytes:
        """The bytes of its file."""
        arrays: dict[str, NDArray[Any]] = {}
        for (part, side), ids in self._ids.items():
            arrays[f"{part}.{side}.ids"] = np.frombuffer(ids, self._dtype)
            arrays[f"{part}.{side}.ends"] = np.array(self._ends[part, side], np.int64)
        arrays |= {f"{part}.sums": np.array(rows, np.int64) for part, rows in self._sums.items()}
        arrays |= {f"{part}.keys": np.array(keys, np.uint64) for part, keys in self._keys.items()}
        file = BytesIO()
        np.savez(file, **arrays)  # type: ignore[arg-type]
        return file.getvalue()

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        with replacing(path, durable=False) as temporary:  # its checksum is compared when it is read
            temporary.write_bytes(self.content())


_SPACE = np.array([chr(code).isspace() for code in range(128)])


def _count_words(text: str, data: bytes) -> int:
    """``len(text.split())``, in a tenth of its time where the text is ASCII."""
    if not data or not text.isascii():
        return len(text.split())
    space = _SPACE[np.frombuffer(data, np.uint8)]
    return int(not space[0]) + int(np.count_nonzero(space[:-1] & ~space[1:]))


def counted(path: Path) -> NDArray[np.int64]:
    """The documents and the tokens of a chunk's file."""
    with opened_chunk(path) as arrays:
        return sum(arrays[f"{part}.sums"][:, :2].sum(axis=0) for part in PARTS)
