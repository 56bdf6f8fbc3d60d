"""Chunks written as the shards of a dataset, sources mixed by weight; validation documents in training are counted."""

from __future__ import annotations

import json
import math
import shlex
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora import PARTS, Kind, Part
from tfcli.data import shards
from tfcli.data.chunk_files import opened_chunk
from tfcli.data.chunks import COUNTED, SUMS, TOKENIZER_NAME, Share, chunk_name
from tfcli.data.mixture import expected_epochs, mixed_order
from tfcli.errors import BrokenInputError, Remark, UsageError
from tfcli.files import digest
from tfcli.records.dataset import NONE_SKIPPED, MixedSource, PartCounts, SkippedRecords, TableReading

if TYPE_CHECKING:
    from tfcli.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Weighted:
    """A source of a mixture, as a share of a dataset knows it."""

    source: str
    weight: float
    max_epochs: int | None
    text_field: str | None = None  # shares of older versions do not have it


@dataclass(frozen=True)
class Encoding:
    """An encoded text, or one machine's share: where it came from, the chunks of each source, and what was left out."""

    fingerprint: str
    tokenizer_fingerprint: str
    kind: Kind
    sources: tuple[str, ...]
    split: str
    share: Share
    chunks: tuple[int, ...]
    mixture: tuple[Weighted, ...]
    skipped: SkippedRecords = NONE_SKIPPED
    removed: dict[str, int] = field(default_factory=dict)
    tables: tuple[TableReading, ...] = field(default=(), compare=False)  # shares of older versions do not have it

    def paths(self, folders: Sequence[Path]) -> list[list[Path]]:
        """The files of each source's chunks, of which every folder has one in turn."""
        return [
            [folders[number % len(folders)] / chunk_name(source, number) for number in range(numbers)]
            for source, numbers in enumerate(self.chunks)
        ]


def appended_fingerprint(before: str, added: str) -> str:
    """Of a dataset to which a text was added."""
    return digest("appended", before, added)


class ChunkWriter:
    """Chunks as the shards of a dataset. `first`: the number of the first shard of each part, where it is not 0."""

    def __init__(
        self,
        about: Encoding,
        tokenizer: Tokenizer,
        folder: Path,
        shard_tokens: int,
        first: Mapping[Part, int] = {},
        labels: Sequence[str] = (),
    ) -> None:
        self._about, self._tokenizer, self._folder = about, tokenizer, folder
        self.sums = {part: np.zeros(len(SUMS), np.int64) for part in PARTS}
        sides, dtype = shards.SIDES[about.kind], shards.token_dtype(max(tokenizer.vocab_size, len(labels) + 3))
        self._writers = {p: shards.PartWriter(folder, p, sides, dtype, shard_tokens, first.get(p, 0)) for p in PARTS}
        self._mixture: list[MixedSource] = []
        self.copies = 0

    @contextmanager
    def opened(self) -> Iterator[dict[Part, shards.PartWriter]]:
        """What writes each part; of one without text no shard is finished."""
        with ExitStack() as stack:
            yield {part: stack.enter_context(writer) for part, writer in self._writers.items()}
            for part, writer in self._writers.items():
                if self._characters(part):
                    writer.finish_shard()

    def write(self, folders: Sequence[Path]) -> None:
        """Append the chunks of each source; of a mixture, training by weight, validation one source after the other."""
        chunks = self._about.paths(folders)
        is_mixture = bool(self._about.mixture)
        lengths = self._training_lengths(chunks) if is_mixture else []  # refused before anything is written
        self.copies = _count_copies(list(chain.from_iterable(chunks)))
        with self.opened() as writers:
            for path in chain.from_iterable(chunks):
                with opened_chunk(path) as arrays:
                    for part, writer in writers.items():
                        if part == "validation" or not is_mixture:
                            self.sums[part] += arrays[f"{part}.sums"].sum(axis=0)
                            writer.write(_sides(arrays, part, self._about.kind))
            if is_mixture:
                self._mix(chunks, lengths)

    def _characters(self, part: Part) -> int:
        return int(self.sums[part][SUMS.index("characters")])

    def _training_lengths(self, chunks: Sequence[Sequence[Path]]) -> list[NDArray[np.int64]]:
        """The tokens of each training document of each source of a mixture; says how long the mixture is.

        Raises:
            UsageError: A source has no training document, or is read too often without `max_epochs`.
        """
        column = SUMS.index("tokens")
        none = np.zeros(0, np.int64)
        lengths = []
        for weighted, paths in zip(self._about.mixture, chunks, strict=True):
            tokens = np.concatenate([none, *_by_document(paths, "train.sums", column)])
            if not len(tokens):
                problem = f"The training part of {weighted.source} has no document"
                raise UsageError(problem, "give more text, or change data.split or data.validation_fraction")
            if tokens.min() < 1:
                raise BrokenInputError(f"{weighted.source} has a document without a token", "prepare it again")
            lengths.append(tokens)
        _require_few_epochs(self._about.mixture, [int(tokens.sum()) for tokens in lengths])
        return lengths

    def _mix(self, chunks: Sequence[Sequence[Path]], lengths: Sequence[NDArray[np.int64]]) -> None:
        mixture = self._about.mixture
        mixed = mixed_order(lengths, [one.weight for one in mixture], [one.max_epochs for one in mixture])
        streams = [_training_documents(paths, self._about.kind) for paths in chunks]
        sides = shards.SIDES[self._about.kind]
        batch: list[dict[str, NDArray[Any]]] = []
        num_ids = 0
        for number, source in enumerate(mixed.order.tolist(), start=1):
            document, sums = next(streams[source])
            self.sums["train"] += sums
            batch.append(document)
            num_ids += sum(map(len, document.values()))
            if num_ids >= _HELD or number == len(mixed.order):
                by_side = {side: [document[side] for document in batch] for side in sides}
                joined = {side: (np.concatenate(ids), np.cumsum([*map(len, ids)])) for side, ids in by_side.items()}
                self._writers["train"].write(joined)
                batch = []
                num_ids = 0
        for number, weighted in enumerate(mixture):
            tokens = mixed.tokens[number]
            source = MixedSource(
                source=weighted.source,
                weight=weighted.weight,
                max_epochs=weighted.max_epochs,
                documents=mixed.documents[number],
                tokens=tokens,
                share=tokens / sum(mixed.tokens),
                epochs=mixed.documents[number] / len(lengths[number]),
                retired_at=mixed.retired[number],
            )
            self._mixture.append(source)

    def finish(self, **more: Any) -> shards.Manifest:
        """The manifest, written. A part without text is a UsageError."""
        about, tokenizer = self._about, self._tokenizer
        for part, sums in self.sums.items():
            if not self._characters(part):
                names = ", ".join(about.sources)
                problem = f"The {part} part of {names} has no text (split {about.split}, {sums[0]} documents)"
                raise UsageError(problem, "give more text, or change data.split or data.validation_fraction")
        tokenizer.save(self._folder / TOKENIZER_NAME)
        same = {name: value for name, value in vars(about).items() if name not in ("share", "chunks", "mixture")}
        manifest = shards.Manifest(
            **(same | more),
            vocab_size=tokenizer.vocab_size,
            roles=tokenizer.roles,
            train=self._part("train"),
            validation=self._part("validation"),
            mixture=tuple(self._mixture),
            copies=self.copies,
        )
        shards.write_manifest(self._folder, manifest)
        return manifest

    def appended(self, old: shards.Manifest) -> shards.Manifest:
        """The manifest of a dataset with what was written behind what it had."""
        parts: dict[str, Any] = {}
        for part in PARTS:
            before, new = old.part(part), self._part(part)
            parts[part] = shards.PartManifest(before.counts.joined(new.counts), before.shards + new.shards)
        states = ((before.counts, len(before.shards)) for before in (old.train, old.validation))
        about = self._about
        return replace(
            old,
            fingerprint=appended_fingerprint(old.fingerprint, about.fingerprint),
            sources=old.sources + about.sources,
            **parts,
            earlier=(*old.earlier, shards.Edition(old.fingerprint, old.sources, *states)),
            skipped=old.skipped.joined(about.skipped),
            removed=dict(Counter(old.removed) + Counter(about.removed)),
            tables=old.tables + about.tables,
        )

    def _part(self, part: Part) -> shards.PartManifest:
        return shards.PartManifest(_part_counts(self.sums[part]), tuple(self._writers[part].shards))


_HELD = 1 << 20  # tokens of mixed documents that are written together
_MOST_EPOCHS = 100  # of a source without max_epochs: with more, the weights are most often a mistake


def _require_few_epochs(mixture: Sequence[Weighted], totals: Sequence[int]) -> None:
    """Say how long a mixture is; refuse, by a UsageError, one that reads a source too often."""
    caps = [weighted.max_epochs for weighted in mixture]
    epochs = expected_epochs(totals, [weighted.weight for weighted in mixture], caps)
    for weighted, number in zip(mixture, epochs, strict=True):
        if weighted.max_epochs is None and number > _MOST_EPOCHS:
            largest = mixture[int(np.argmax(totals))]
            problem = (
                f"The weights read {weighted.source} {_times(number)} while {largest.source} is read once,"
                f" and without max_epochs a source is read {_MOST_EPOCHS} times at most"
            )
            remedy = f"choose other weights, or write {_sources_with_cap(mixture, weighted)} in their place"
            raise UsageError(problem, remedy)
    tokens = sum(total * number for total, number in zip(totals, epochs, strict=True))
    named = zip(mixture, epochs, strict=True)
    counts = ", ".join(f"{weighted.source} {_times(number)}" for weighted, number in named)
    warnings.warn(f"The mixture has about {round(tokens):,} training tokens: {counts}.", Remark, stacklevel=2)


def _times(epochs: float) -> str:
    if epochs > 1e15:
        return "endlessly often"
    if epochs >= 10:
        return f"{epochs:,.0f} times"
    return f"{epochs:.1f} times" if epochs >= 1 else f"{epochs:.2g} times"


def _sources_with_cap(mixture: Sequence[Weighted], capped: Weighted) -> str:
    """The option that allows one source of a mixture to be read more than so many times."""
    tables = []
    for weighted in mixture:
        name = json.dumps(weighted.source, ensure_ascii=False)
        fields = [f"source={name}", f"weight={weighted.weight!r}"]
        max_epochs = _MOST_EPOCHS if weighted is capped else weighted.max_epochs
        if max_epochs is not None:
            fields.append(f"max_epochs={max_epochs}")
        if weighted.text_field is not None:
            fields.append(f"text_field={json.dumps(weighted.text_field, ensure_ascii=False)}")
        tables.append(f"{{{', '.join(fields)}}}")
    return "--set " + shlex.quote(f"data.sources=[{', '.join(tables)}]")


def _sides(arrays: Any, part: Part, kind: Kind) -> dict[str, tuple[NDArray[Any], NDArray[np.int64]]]:
    return {side: (arrays[f"{part}.{side}.ids"], arrays[f"{part}.{side}.ends"]) for side in shards.SIDES[kind]}


def _by_document(chunks: Sequence[Path], name: str, column: int | None = None) -> Iterator[NDArray[Any]]:
    """What is summed up for each document, chunk by chunk: the last row of one goes on in the first of the next."""
    left = np.zeros(1, np.int64)
    for path in chunks:
        with opened_chunk(path) as arrays:
            values = arrays[name] if column is None else arrays[name][:, column]
            values = values.copy()
        values[:1] += left.astype(values.dtype)  # hashes are sums modulo 2^64
        left = values[-1:]
        yield values[:-1]


def _count_copies(chunks: Sequence[Path]) -> int:
    """How many validation documents stand in training, too; of 8 bytes each, those of validation alone are held."""
    for path in chunks[:1]:
        with opened_chunk(path) as arrays:
            if "train.keys" not in arrays:
                return 0
    validation = np.concatenate([*_by_document(chunks, "validation.keys"), np.zeros(0, np.uint64)])
    held, counts = np.unique(validation, return_counts=True)
    found = np.zeros(len(held), bool)
    for keys in _by_document(chunks, "train.keys"):
        found |= np.isin(held, keys)
    return int(counts[found].sum())


def _training_documents(chunks: Sequence[Path], kind: Kind) -> Iterator[tuple[dict[str, NDArray[Any]], NDArray[Any]]]:
    """The documents of a source over and over: the ids of each side, and the sums. One may go on in the next chunk."""
    sides = shards.SIDES[kind]
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
    counted = PartCounts(**{name: found[name] for name in COUNTED})
    if not found["words"]:
        return counted
    mean = found["pieces"] / found["words"]
    deviations = found["squares"] - 2 * mean * found["products"] + mean**2 * found["word_squares"]
    return replace(counted, words=found["words"], spread=round(math.sqrt(max(0.0, deviations) / found["words"]), 4))
