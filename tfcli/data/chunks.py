"""Chunks of a corpus: pieces of documents, encoded apart from each other, and then written one behind the other.

A chunk does not depend on who encodes it. What it holds: the ids, where documents end in them, and what each counts.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from io import BytesIO
from itertools import chain, count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora import PARTS, PIECE_CHARACTERS, Document, Kind, Pair, Part, Text, pieces
from tfcli.data.mixture import mixed_order
from tfcli.data.shards import (
    SIDES,
    Edition,
    Manifest,
    PartManifest,
    PartWriter,
    opened_chunk,
    token_dtype,
    write_manifest,
)
from tfcli.errors import UsageError, shortened
from tfcli.files import replacing
from tfcli.records.dataset import MixedSource, PartCounts, SkippedRecords

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.tokenization.tokenizer import Tokenizer

BATCH_CHARACTERS = 2**20
"""Pieces are encoded together until they hold so many characters: work for all cores in some 100 MB."""
_GROWTH = 64
"""A chunk is a batch; behind every so many chunks, one batch more: 11,000 chunks of a terabyte."""
TOKENIZER_NAME = "tokenizer.json"

Progress = Callable[[int, int], None]
"""Receives the documents and tokens done so far."""


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
        sides: dict[str, Text] = vars(document) if isinstance(document, Pair) else {"": document}
        for side, text in sides.items():
            stretches: Iterator[str | None] = chain(pieces(text, limit), [None])
            for number, (piece, after) in enumerate(pairwise(stretches)):
                assert piece is not None
                yield Piece(part, side, piece, first=number == 0, last=after is None)


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


def chunks_of(stream: Iterable[Piece]) -> Iterator[list[list[Piece]]]:
    """The batches of each chunk, which do not depend on who encodes it."""
    batches = batched(stream)
    for number in count():
        chunk = [batch for _, batch in zip(range(1 + number // _GROWTH), batches, strict=False)]
        if not chunk:
            return
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
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    share: Share,
    is_there: Callable[[str], bool],
    *,
    is_whole: bool = True,
) -> Iterator[tuple[str, EncodedChunk | None] | int]:
    """The chunks of a share by their names, None for one that `is_there`; behind those of each source, how many it has
    in all. The text is read to its end whatever the share, since a chunk begins where the one before it has ended.
    `is_whole`: both parts must hold text."""
    streams = [one.split.divided for one in division.mixture] or [division.parts if is_whole else division.divided]
    for source, documents in enumerate(streams):
        number = -1
        for number, chunk in enumerate(chunks_of(document_pieces(documents()))):
            if number % share.of == share.number:
                name = chunk_name(source, number)
                yield name, None if is_there(name) else EncodedChunk(division.source.kind, tokenizer).of(chunk)
        yield number + 1


def encode_share(
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    folder: Path,
    share: Share,
    progress: Progress | None = None,
    *,
    is_whole: bool = True,
) -> tuple[int, ...]:
    """Encode the chunks of a share that are not in `folder` yet; returns the number of all chunks of each source."""
    done, numbers = np.zeros(2, np.int64), []
    for found in encoded_chunks(division, tokenizer, share, lambda name: (folder / name).exists(), is_whole=is_whole):
        if isinstance(found, int):
            numbers.append(found)
            continue
        name, chunk = found
        if chunk is not None:
            chunk.save(folder / name)
        if progress:
            done += counted(folder / name) if chunk is None else chunk.counted()
            progress(*done.tolist())
    return tuple(numbers)


def skipped_records(division: TrainValidationSplit) -> SkippedRecords:
    """What was left out of the sources that have been read."""
    return reduce(SkippedRecords.joined, (source.skipped() for source in division.read()))


@dataclass(frozen=True)
class Weighted:
    """A source of a mixture, as a share of a dataset knows it."""

    source: str
    weight: float
    max_epochs: int | None


_COUNTED = ("documents", "tokens", "bytes", "characters", "unknown")
SUMS = (*_COUNTED, "pieces", "words", "squares", "products", "word_squares")


class EncodedChunk:
    """The ids of some batches, where documents end in them, and the sums of each document."""

    def __init__(self, kind: Kind, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._dtype, self._last_side = tokenizer, token_dtype(tokenizer.vocab_size), SIDES[kind][-1]
        places = [(part, side) for part in PARTS for side in SIDES[kind]]
        self._ids = {place: array("H" if self._dtype.itemsize == 2 else "I") for place in places}
        self._ends: dict[tuple[Part, str], list[int]] = {place: [] for place in places}
        self._sums = {part: [[0] * len(SUMS)] for part in PARTS}

    def add(self, batch: Sequence[Piece]) -> None:
        """Encode a batch."""
        roles = self._tokenizer.roles
        end = list(roles.end)
        for piece, ids in zip(batch, self._tokenizer.encode_batch([piece.text for piece in batch]), strict=True):
            place = piece.part, piece.side
            stored, rows = self._ids[place], self._sums[piece.part]
            if piece.first:
                stored.fromlist(list(roles.stored_start(piece.side)))
            stored.fromlist(ids)
            size, data, counted = len(ids), piece.text.encode(), piece.side != "source"
            words, tokens = _count_words(piece.text, data), size
            if piece.last:
                stored.fromlist(end)
                tokens += len(end)
                self._ends[place].append(len(stored))
            texts = counted * piece.last, tokens, counted * len(data), counted * len(piece.text)
            unknown = self._tokenizer.count_unknown(ids)
            new = *texts, unknown, size, words, size * size, size * words, words * words
            rows[-1] = [one + more for one, more in zip(rows[-1], new, strict=True)]
            if piece.last and piece.side == self._last_side:
                rows.append([0] * len(SUMS))

    def of(self, batches: Iterable[Sequence[Piece]]) -> EncodedChunk:
        """The same, with these batches."""
        for batch in batches:
            self.add(batch)
        return self

    def counted(self) -> NDArray[np.int64]:
        """Its documents and tokens."""
        return np.array([row[:2] for rows in self._sums.values() for row in rows]).sum(axis=0)

    def content(self) -> bytes:
        """The bytes of its file."""
        arrays: dict[str, NDArray[Any]] = {}
        for (part, side), ids in self._ids.items():
            arrays[f"{part}.{side}.ids"] = np.frombuffer(ids, self._dtype)
            arrays[f"{part}.{side}.ends"] = np.array(self._ends[part, side], np.int64)
        for part, rows in self._sums.items():
            arrays[f"{part}.sums"] = np.array(rows, np.int64)
        file = BytesIO()
        np.savez(file, **arrays)  # type: ignore[arg-type]
        return file.getvalue()

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        with replacing(path, durable=False) as temporary:  # its checksum is compared when it is read
            temporary.write_bytes(self.content())


_SPACE = np.zeros(128, bool)
_SPACE[[ord(one) for one in map(chr, range(128)) if one.isspace()]] = True


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


class ChunkWriter:
    """Chunks as the shards of a dataset."""

    def __init__(
        self,
        kind: Kind,
        tokenizer: Tokenizer,
        folder: Path,
        shard_tokens: int,
        first: Mapping[Part, int] | None = None,
    ) -> None:
        """`first`: the number of the first shard of each part, where it is not 0."""
        self._kind, self._tokenizer, self._folder = kind, tokenizer, folder
        self._sums = {part: np.zeros(len(SUMS), np.int64) for part in PARTS}
        dtype = token_dtype(tokenizer.vocab_size)
        first = first or dict.fromkeys(PARTS, 0)
        self._writers = {
            part: PartWriter(folder, part, SIDES[kind], dtype=dtype, shard_tokens=shard_tokens, first=first[part])
            for part in PARTS
        }
        self._mixture: tuple[MixedSource, ...] = ()

    def write(self, chunks: Sequence[Sequence[Path]], mixture: Sequence[Weighted] = ()) -> None:
        """Append the chunks of each source. Those of a mixture are the training part by weight, and the validation part
        one source after the other."""
        with ExitStack() as stack:
            for writer in self._writers.values():
                stack.enter_context(writer)
            for path in chain.from_iterable(chunks):
                with opened_chunk(path) as arrays:
                    for part, writer in self._writers.items():
                        if part == "validation" or not mixture:
                            self._sums[part] += arrays[f"{part}.sums"].sum(axis=0)
                            writer.write(_sides(arrays, part, self._kind))
            if mixture:
                self._mix(chunks, mixture)
            for part, writer in self._writers.items():
                if self._characters(part):
                    writer.finish_shard()

    def _characters(self, part: Part) -> int:
        return int(self._sums[part][SUMS.index("characters")])

    def _mix(self, chunks: Sequence[Sequence[Path]], mixture: Sequence[Weighted]) -> None:
        lengths = [_document_tokens(paths) for paths in chunks]
        for one, own in zip(mixture, lengths, strict=True):
            if not len(own):
                problem = f"The training part of {one.source} has no document"
                raise UsageError(problem, "give more text, or change data.split or data.validation_fraction")
        mixed = mixed_order(lengths, [one.weight for one in mixture], [one.max_epochs for one in mixture])
        streams = [_training_documents(paths, self._kind) for paths in chunks]
        sides = SIDES[self._kind]
        buffers: dict[str, list[NDArray[Any]]] = {side: [] for side in sides}
        held = 0
        for number, source in enumerate(mixed.order.tolist(), start=1):
            document, sums = next(streams[source])
            self._sums["train"] += sums
            for side, ids in document.items():
                buffers[side].append(ids)
                held += len(ids)
            if held >= _HELD or number == len(mixed.order):
                ends = {side: np.cumsum([len(ids) for ids in buffers[side]]) for side in sides}
                self._writers["train"].write({side: (np.concatenate(buffers[side]), ends[side]) for side in sides})
                buffers, held = {side: [] for side in sides}, 0
        total = sum(mixed.tokens)
        self._mixture = tuple(
            MixedSource(
                source=one.source,
                weight=one.weight,
                documents=documents,
                tokens=tokens,
                share=tokens / total,
                epochs=documents / len(own),
                max_epochs=one.max_epochs,
                retired_at=retired,
            )
            for one, own, documents, tokens, retired in zip(
                mixture, lengths, mixed.documents, mixed.tokens, mixed.retired, strict=True
            )
        )

    def finish(self, sources: Sequence[str], split: str, fingerprint: str, skipped: SkippedRecords) -> Manifest:
        """The manifest, written. A part without text is a UsageError."""
        for part, sums in self._sums.items():
            if not self._characters(part):
                names = ", ".join(sources)
                problem = f"The {part} part of {names} has no text (split {split}, {sums[0]} documents)"
                raise UsageError(problem, "give more text, or change data.split or data.validation_fraction")
        self._tokenizer.save(self._folder / TOKENIZER_NAME)
        tokenizer = self._tokenizer
        manifest = Manifest(
            kind=self._kind,
            sources=tuple(sources),
            split=split,
            fingerprint=fingerprint,
            tokenizer_fingerprint=tokenizer.fingerprint,
            vocab_size=tokenizer.vocab_size,
            roles=tokenizer.roles,
            train=self._part("train"),
            validation=self._part("validation"),
            mixture=self._mixture,
            skipped=skipped,
        )
        write_manifest(self._folder, manifest)
        return manifest

    def appended(self, old: Manifest, sources: Sequence[str], fingerprint: str, skipped: SkippedRecords) -> Manifest:
        """The manifest of a dataset with what was written behind what it had."""
        parts = {}
        for part in PARTS:
            before, new = old.part(part), self._part(part)
            parts[part] = PartManifest(before.counts.joined(new.counts), before.shards + new.shards)
        edition = Edition(
            old.fingerprint,
            old.sources,
            train=(old.train.counts, len(old.train.shards)),
            validation=(old.validation.counts, len(old.validation.shards)),
        )
        return replace(
            old,
            fingerprint=fingerprint,
            sources=old.sources + tuple(sources),
            train=parts["train"],
            validation=parts["validation"],
            earlier=(*old.earlier, edition),
            skipped=old.skipped.joined(skipped),
        )

    def _part(self, part: Part) -> PartManifest:
        return PartManifest(_part_counts(self._sums[part]), tuple(self._writers[part].shards))


_HELD = 1 << 20
"""Tokens of mixed documents that are written together."""


def _sides(arrays: Any, part: Part, kind: Kind) -> dict[str, tuple[NDArray[Any], NDArray[np.int64]]]:
    return {side: (arrays[f"{part}.{side}.ids"], arrays[f"{part}.{side}.ends"]) for side in SIDES[kind]}


def _document_tokens(chunks: Sequence[Path]) -> NDArray[np.int64]:
    """Tokens of each training document of a source."""
    found, left = [], 0
    place = SUMS.index("tokens")
    for path in chunks:
        with opened_chunk(path) as arrays:
            tokens = arrays["train.sums"][:, place].copy()
        tokens[0] += left
        left = int(tokens[-1])
        found.append(tokens[:-1])
    return np.concatenate([*found, np.zeros(0, np.int64)])


def _training_documents(
    chunks: Sequence[Path], kind: Kind
) -> Iterator[tuple[dict[str, NDArray[Any]], NDArray[np.int64]]]:
    """The documents of a source over and over: the ids of each side, and the sums. One may go on in the next chunk."""
    sides = SIDES[kind]
    while True:
        begun: dict[str, list[NDArray[Any]]] = {side: [] for side in sides}
        sums, at = np.zeros(len(SUMS), np.int64), 0
        for path in chunks:
            with opened_chunk(path) as arrays:
                rows, found = iter(arrays["train.sums"]), _sides(arrays, "train", kind)
            # Behind what each end closes comes the rest.
            left = {side: deque(np.split(ids, ends)) for side, (ids, ends) in found.items()}
            while True:
                side = sides[at]
                begun[side].append(left[side].popleft())
                if not left[side]:
                    break
                at = (at + 1) % len(sides)
                if at == 0:
                    yield {side: np.concatenate(begun[side]) for side in sides}, sums + next(rows)
                    begun, sums = {side: [] for side in sides}, np.zeros(len(SUMS), np.int64)
            sums = sums + next(rows)


def _part_counts(sums: NDArray[np.int64]) -> PartCounts:
    found = dict(zip(SUMS, sums.tolist(), strict=True))
    counted = PartCounts(**{name: found[name] for name in _COUNTED})
    if not found["words"]:
        return counted
    mean = found["pieces"] / found["words"]
    deviations = found["squares"] - 2 * mean * found["products"] + mean**2 * found["word_squares"]
    return replace(counted, words=found["words"], spread=round(math.sqrt(max(0.0, deviations) / found["words"]), 4))
