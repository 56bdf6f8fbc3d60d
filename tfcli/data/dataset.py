"""Opening a prepared dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora.source import Kind, Part
from tfcli.data.manifest import Manifest, PartManifest, StoredArray, read_manifest
from tfcli.data.views import PairsView, SequencesView, TokenStreamView
from tfcli.errors import BrokenInputError, UsageError
from tfcli.files import file_digest
from tfcli.records.dataset import DatasetRecord

if TYPE_CHECKING:
    from tfcli.tokenization.tokenizer import Tokenizer

DIGESTED_BYTES = 2**28
"""Opening a dataset up to this size reads it once to compare digests (about half a second); of a larger one
only the sizes are compared, for opening must not take minutes."""


class PreparedDataset:
    """A folder made by `prepare`, memory-mapped."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: Path) -> PreparedDataset:
        """Read the manifest and check that every shard is there and whole.

        Raises:
            UsageError: there is no prepared dataset, or its format is not read here.
            BrokenInputError: the manifest or a shard is missing, truncated or changed.
        """
        dataset = cls(path, read_manifest(path))
        dataset._check_files()
        return dataset

    def record(self, *, reused: bool = False) -> DatasetRecord:
        """The dataset in numbers."""
        return self.manifest.record(self.path, reused=reused)

    def require_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Refuse any tokenizer but the one that the ids were made with.

        Raises:
            UsageError: naming both fingerprints.
        """
        made_with = self.manifest.tokenizer_fingerprint
        if tokenizer.fingerprint != made_with:
            raise UsageError(
                f"{self.path} was prepared with another tokenizer ({made_with}, not {tokenizer.fingerprint})",
                "use that tokenizer, or prepare the text again with this one",
            )

    def text(self, part: Part) -> TokenStreamView:
        """A part of a dataset of text as one stream of tokens.

        Raises:
            UsageError: it holds pairs.
        """
        self._require_kind("text")
        shards = self._part(part).shards
        return TokenStreamView(
            [self._load(shard["tokens"]) for shard in shards], [self._load(shard["offsets"]) for shard in shards]
        )

    def pairs(self, part: Part) -> PairsView:
        """A part of a dataset of pairs.

        Raises:
            UsageError: it holds text.
        """
        self._require_kind("pairs")
        return PairsView(self._side(part, "source"), self._side(part, "target"))

    def _side(self, part: Part, side: str) -> SequencesView:
        return SequencesView(
            [
                (self._load(shard[f"{side}.tokens"]), self._load(shard[f"{side}.offsets"]))
                for shard in self._part(part).shards
            ]
        )

    def _part(self, part: Part) -> PartManifest:
        return self.manifest.train if part == "train" else self.manifest.validation

    def _load(self, stored: StoredArray) -> NDArray[Any]:
        # A plain array over the map: slicing a numpy.memmap itself costs several times as much.
        return np.asarray(np.load(self.path / stored.file, mmap_mode="r", allow_pickle=False))

    def _require_kind(self, kind: Kind) -> None:
        if self.manifest.kind != kind:
            need = "an encoder-decoder needs pairs" if kind == "pairs" else "an encoder or a decoder needs text"
            raise UsageError(f"{self.path} holds {self.manifest.kind}, not {kind}", f"{need}: prepare another source")

    def _check_files(self) -> None:
        parts = (self.manifest.train, self.manifest.validation)
        arrays = [stored for part in parts for shard in part.shards for stored in shard.values()]
        digested = sum(stored.size for stored in arrays) <= DIGESTED_BYTES
        for stored in arrays:
            problem = self._problem(stored, digested)
            if problem:
                raise BrokenInputError(
                    f"{self.path / stored.file} {problem}",
                    f"remove the folder {self.path} and prepare the text again",
                )

    def _problem(self, stored: StoredArray, digested: bool) -> str | None:
        path = self.path / stored.file
        if not path.is_file():
            return "is missing"
        size = path.stat().st_size
        if size != stored.size:
            return f"has {size} bytes where {stored.size} were written"
        if digested and file_digest(path) != stored.digest:
            return "has changed since it was written"
        return None
