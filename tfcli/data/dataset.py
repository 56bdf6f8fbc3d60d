"""The prepared dataset: memory-mapped shards of token ids, and what is checked when they are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfcli.corpora.source import PARTS, Kind, Part
from tfcli.data.manifest import MANIFEST_NAME, SIDES, Manifest, array_name, read_manifest
from tfcli.data.shards import ShardOffsets, ShardTokens
from tfcli.data.views import PairsView, SequencesView, TokenStreamView
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.records.dataset import DatasetRecord

if TYPE_CHECKING:
    from tfcli.tokenization.tokenizer import Tokenizer

_Shards = dict[tuple[Part, str], list[tuple[ShardTokens, ShardOffsets]]]
"""Of each side of each part; text has the side ""."""


class PreparedDataset:
    """A folder made by `prepare`, memory-mapped.

    Opening it costs the same at any size: the manifest and the header of every file are read and compared with each
    other. The bytes of a file are compared, in one pass, when the first of them is asked for. Whatever reads a view may
    therefore raise a BrokenInputError.
    """

    def __init__(self, path: Path, manifest: Manifest, shards: _Shards) -> None:
        self.path = path
        self.manifest = manifest
        self._shards = shards

    @classmethod
    def open(cls, path: Path) -> PreparedDataset:
        """Read the manifest and the header of every file.

        Raises:
            UsageError: there is no prepared dataset, or its format is not read here.
            BrokenInputError: the manifest or a file is missing, truncated or damaged, or they contradict each other.
        """
        manifest = read_manifest(path)
        return cls(path, manifest, _open_shards(path, manifest))

    def called(self, sources: Sequence[str]) -> PreparedDataset:
        """The same dataset, under other names of its sources."""
        return PreparedDataset(self.path, replace(self.manifest, sources=tuple(sources)), self._shards)

    def record(self, *, reused: bool = False) -> DatasetRecord:
        """The dataset in numbers."""
        return self.manifest.record(self.path, reused=reused)

    def require_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Refuse any tokenizer but the one that the ids were made with.

        Raises:
            UsageError: naming both fingerprints.
            BrokenInputError: the manifest tells of another number of ids than that tokenizer has.
        """
        made_with = self.manifest.tokenizer_fingerprint
        if tokenizer.fingerprint != made_with:
            raise UsageError(
                f"{self.path} was prepared with another tokenizer ({made_with}, not {tokenizer.fingerprint})",
                "use that tokenizer, or prepare the text again with this one",
            )

        if tokenizer.vocab_size != (size := self.manifest.vocab_size):
            raise BrokenInputError(
                f"{self.path / MANIFEST_NAME} tells of {size} ids, and its tokenizer has {tokenizer.vocab_size}",
                "prepare the text again",
            )

    def compare_first_shards(self) -> None:
        """Compare the bytes of the first shard of each part, which of most datasets is all, before work begins on them.

        Raises:
            BrokenInputError: one has changed, or holds what it cannot.
        """
        for shards in self._shards.values():
            _ = shards[0][0].values

    def text(self, part: Part) -> TokenStreamView:
        """A part of a dataset of text as one stream of tokens.

        Raises:
            UsageError: it holds pairs.
        """
        self.require_kind("text")
        tokens, offsets = zip(*self._shards[part, ""], strict=True)
        roles = self.manifest.roles
        return TokenStreamView(tokens, offsets, roles.eos if roles.is_shared else None)

    def pairs(self, part: Part) -> PairsView:
        """A part of a dataset of pairs.

        Raises:
            UsageError: it holds text.
        """
        self.require_kind("pairs")
        return PairsView(SequencesView(self._shards[part, "source"]), SequencesView(self._shards[part, "target"]))

    def require_kind(self, kind: Kind) -> None:
        """Refuse a dataset of the other kind.

        Raises:
            UsageError: it is one.
        """
        if self.manifest.kind != kind:
            need = "an encoder-decoder needs pairs" if kind == "pairs" else "an encoder or a decoder needs text"
            raise UsageError(f"{self.path} holds {self.manifest.kind}, not {kind}", f"{need}: prepare another source")


def _open_shards(folder: Path, manifest: Manifest) -> _Shards:
    """The shards of each side of each part.

    Raises:
        BrokenInputError: a file is missing or is not what was written, or the manifest counts otherwise.
    """
    opened: _Shards = {(part, side): [] for part in PARTS for side in SIDES[manifest.kind]}
    for part in PARTS:
        documents, tokens = set(), 0
        for side in SIDES[manifest.kind]:
            before = manifest.begins_with(side)
            shortest = before + len(manifest.roles.end)
            shards = opened[part, side]
            for shard in manifest.part(part).shards:
                ids = ShardTokens(folder, shard[array_name(side, "tokens")], manifest.vocab_size)
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
