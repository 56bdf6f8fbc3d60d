"""Prepared datasets: opened, checked and read, as one stream or as sequences by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora import PARTS, TASKS, Kind, Part
from tfcli.data.shards import MANIFEST_NAME, SIDES, ShardArray, ShardOffsets, ShardTokens, array_name, read_manifest
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.records.dataset import DatasetRecord

if TYPE_CHECKING:
    from tfcli.data.shards import Manifest
    from tfcli.tokenization.tokenizer import Tokenizer

IntArray = NDArray[np.integer]
Stored = IntArray | ShardArray  # numbers of which only those that are asked for are read: an array, or one on disk


class TokenStreamView:
    """All documents of a part, ``<s> ids </s> <s> ids </s> …``, as one stream of tokens over its shards, each with one
    offset more than documents. `between` is the one token that stands between two documents, and then before the first
    one as well: ``</s> ids </s> ids </s> …``. None: each has a beginning of its own, or none."""

    def __init__(self, shards: Sequence[Stored], offsets: Sequence[Stored] = (), between: int | None = None) -> None:
        self._shared = between is not None
        self._shards = shards if between is None else [np.array([between]), *shards]
        self._offsets = offsets if between is None else [np.zeros(1, np.int64), *offsets]
        lengths = [len(shard) for shard in self._shards]
        self._ends = np.cumsum(lengths)
        self._firsts: list[int] = (self._ends - lengths).tolist()

    def __len__(self) -> int:
        """The number of ids, special ones included."""
        return int(self._ends[-1])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each document begins in the stream, and where the last one ends. Shape: (documents + 1,)."""
        begins = [first + offsets[:-1] for first, offsets in zip(self._firsts, self._offsets, strict=True)]
        return np.concatenate([*begins, self._ends[-1:]])

    @property
    def documents(self) -> NDArray[np.int64]:
        """Where a model begins to read each document, and where that one ends. Shape: (2, documents)."""
        offsets = self.offsets
        return np.stack([offsets[:-1] - self._shared, offsets[1:]])

    def document_starts(self, starts: IntArray, length: int) -> NDArray[np.int64]:
        """Of each token of windows, the column where a model begins to read its document; 0 where that was before the
        window. Shape: starts (B,); result (B, length)."""
        result = np.zeros((len(starts), length), dtype=np.int64)
        shards = np.searchsorted(self._ends, starts, side="right")
        for row, start, shard in zip(result, starts.tolist(), shards.tolist(), strict=True):
            # Of a shard, only the offsets that the window needs are read.
            while shard < len(self._shards):
                column = self._firsts[shard] - self._shared - start  # of offset 0
                if column >= length:
                    break
                offsets = self._offsets[shard][:-1]
                columns = offsets[offsets.searchsorted(-column) : offsets.searchsorted(length - column)] + column
                row[columns] = columns
                shard += 1
        return np.maximum.accumulate(result, axis=1)

    def padded(self, starts: IntArray, lengths: IntArray, pad: int) -> NDArray[np.int64]:
        """The tokens from each of `starts` on, filled up on the right with `pad`.
        Shape: starts, lengths (B,); result (B, longest of them)."""
        result = np.full((len(starts), int(lengths.max())), pad, dtype=np.int64)
        shards = np.searchsorted(self._ends, starts, side="right")
        for row, start, length, shard in zip(result, starts.tolist(), lengths.tolist(), shards.tolist(), strict=True):
            filled = 0
            while filled < length:
                offset = start + filled - self._firsts[shard]
                found = self._shards[shard][offset : offset + length - filled]
                row[filled : filled + len(found)] = found
                filled += len(found)
                shard += 1
        return result


class SequencesView:
    """The sequences of one side of the pairs, by their number."""

    def __init__(self, shards: Sequence[tuple[Stored, Stored]]) -> None:
        """`shards` are (tokens, offsets), offsets one longer than the sequences of the shard."""
        tokens, offsets = zip(*shards, strict=True)
        self._stream = TokenStreamView(tokens, offsets)
        self._offsets = self._stream.offsets
        self.lengths = np.diff(self._offsets)

    def __len__(self) -> int:
        return len(self.lengths)

    def sequence(self, number: int) -> NDArray[np.int64]:
        """One sequence, of shape (its length,)."""
        return self.padded(np.array([number]), pad=0)[0]

    def padded(self, numbers: IntArray, pad: int) -> NDArray[np.int64]:
        """The sequences of these numbers, filled up on the right with `pad`. Shape: (B,) → (B, longest of them)."""
        return self._stream.padded(self._offsets[numbers], self.lengths[numbers], pad)


@dataclass(frozen=True)
class PairsView:
    """The pairs of a part: source ``ids </s>``, target ``<s> ids </s>``."""

    source: SequencesView
    target: SequencesView

    def __len__(self) -> int:
        return len(self.source)


_Shards = dict[tuple[Part, str], list[tuple[ShardTokens, ShardOffsets]]]  # of each part and side; "" for text


class PreparedDataset:
    """A folder made by `prepare`, memory-mapped. Opening it costs the same at any size: the manifest and the header of
    every file are read and compared with each other. The bytes of a file are compared, in one pass, when the first of
    them is asked for: whatever reads a view may raise a BrokenInputError."""

    def __init__(self, path: Path, manifest: Manifest, shards: _Shards) -> None:
        self.path = path
        self.manifest = manifest
        self._shards = shards

    @classmethod
    def open(cls, path: Path, fingerprint: str | None = None) -> PreparedDataset:
        """Read the manifest and the header of every file; of a dataset that was appended to, as it was when it had this
        `fingerprint`, if it ever had it. A UsageError where there is no prepared dataset, or its format is not read
        here; BrokenInputError where a file is missing, truncated or damaged, or they contradict each other."""
        manifest = read_manifest(path)
        manifest = manifest.edition(fingerprint or "") or manifest
        return cls(path, manifest, _open_shards(path, manifest))

    def called(self, sources: Sequence[str]) -> PreparedDataset:
        """The same dataset, under other names of its sources."""
        return PreparedDataset(self.path, replace(self.manifest, sources=tuple(sources)), self._shards)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the ids were made with, which lies beside them."""
        from tfcli.tokenization.tokenizer import load_tokenizer

        return load_tokenizer(self.path)

    def record(self, *, reused: bool = False) -> DatasetRecord:
        """The dataset in numbers."""
        return self.manifest.record(self.path, reused=reused)

    def require_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Refuse any tokenizer but the one that the ids were made with; BrokenInputError where the manifest tells of
        another number of ids than that one has."""
        made_with = self.manifest.tokenizer_fingerprint
        if tokenizer.fingerprint != made_with:
            problem = f"{self.path} was prepared with another tokenizer ({made_with}, not {tokenizer.fingerprint})"
            raise UsageError(problem, "use that tokenizer, or prepare the text again with this one")
        if tokenizer.vocab_size != (size := self.manifest.vocab_size):
            told = f"{self.path / MANIFEST_NAME} tells of {size} ids"
            raise BrokenInputError(f"{told}, and its tokenizer has {tokenizer.vocab_size}", "prepare the text again")

    def compare_first_shards(self) -> None:
        """Compare the bytes of the first shard of each part, which of most datasets is all, before work begins on them;
        BrokenInputError where one has changed, or holds what it cannot."""
        for shards in self._shards.values():
            _ = shards[0][0].values

    def text(self, part: Part) -> TokenStreamView:
        """A part of a dataset of text as one stream of tokens; a UsageError of one of pairs."""
        self.require_kind("text")
        tokens, offsets = zip(*self._shards[part, ""], strict=True)
        roles = self.manifest.roles
        return TokenStreamView(tokens, offsets, roles.eos if roles.is_shared else None)

    def pairs(self, part: Part) -> PairsView:
        """A part of a dataset of pairs, or of labelled texts; a UsageError of one of text."""
        if self.manifest.kind not in TASKS:
            self.require_kind("pairs")
        return PairsView(SequencesView(self._shards[part, "source"]), SequencesView(self._shards[part, "target"]))

    def require_kind(self, kind: Kind) -> None:
        """Refuse a dataset of the other kind, by a UsageError."""
        if self.manifest.kind != kind:
            if kind in TASKS:
                raise UsageError(f"{self.path} holds {self.manifest.kind}, not {kind}", "name the labelled file itself")
            need = "an encoder-decoder needs pairs, and so does train.completion_only"
            need = need if kind == "pairs" else "an encoder or a decoder needs text, and so does train.objective"
            raise UsageError(f"{self.path} holds {self.manifest.kind}, not {kind}", f"{need}: prepare another source")


def _open_shards(folder: Path, manifest: Manifest) -> _Shards:
    """The shards of each side of each part, which must hold as many documents and tokens as the manifest says."""
    opened: _Shards = {(part, side): [] for part in PARTS for side in SIDES[manifest.kind]}
    for part in PARTS:
        documents, tokens = set(), 0
        for side in SIDES[manifest.kind]:
            before = len(manifest.roles.stored_start(side))
            shortest = before + len(manifest.roles.end)
            shards = opened[part, side]
            for shard in manifest.part(part).shards:
                most = max(manifest.vocab_size, len(manifest.labels) + 3)
                ids = ShardTokens(folder, shard[array_name(side, "tokens")], most)
                shards.append((ids, ShardOffsets(folder, shard[array_name(side, "offsets")], ids, shortest)))
            lengths = tuple(len(offsets) - 1 for _, offsets in shards)
            documents.add(lengths)
            tokens += sum(len(ids) for ids, _ in shards) - before * sum(lengths)
        counts, first = manifest.part(part).counts, opened[part, SIDES[manifest.kind][0]][0][1]
        if any(sum(lengths) != counts.documents for lengths in documents) or tokens != counts.tokens:
            held = f"{' and '.join(str(sum(lengths)) for lengths in documents)} documents of {tokens} tokens"
            told = f"{shortened(str(counts.documents))} of {shortened(str(counts.tokens))}"
            raise first.broken(f"begins a part that holds {held}, and {MANIFEST_NAME} tells of {told}")
        if len(documents) > 1:
            raise first.broken("begins a part that holds other numbers of sources than of targets")
    return opened
