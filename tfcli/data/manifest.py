"""``manifest.json``: what a prepared dataset holds, and how to know that it is whole."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tfcli.corpora.source import PARTS, Kind, Part
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.files import read_versioned, validated, write_json
from tfcli.records.dataset import DatasetRecord, PartCounts
from tfcli.records.roles import TokenRoles

FORMAT_VERSION = 2
_BEFORE_TEXT_START = 1
"""Where every text begins with bos, even where that is the end of another one."""
MANIFEST_NAME = "manifest.json"
SIDES: dict[Kind, tuple[str, ...]] = {"text": ("",), "pairs": ("source", "target")}
_MOST_IDS = 1 << 32
_RESTORE = "restore it or prepare the text again"
_DIGEST = re.compile("[0-9a-f]{16}")


def array_name(side: str, array: str) -> str:
    """How a shard calls the "tokens" or "offsets" of a side."""
    return f"{side}.{array}" if side else array


def file_name(part: str, number: int, name: str) -> str:
    """The file of an array of a part's n-th shard."""
    return f"{part}-{number:05d}.{name}.npy"


@dataclass(frozen=True)
class StoredArray:
    """One ``.npy`` file: its name inside the folder, its size in bytes and the digest of its bytes."""

    file: str
    size: int
    digest: str


@dataclass(frozen=True)
class PartManifest:
    """The training or the validation part.

    A shard maps "tokens" and "offsets" to their files; for pairs "source.tokens", "source.offsets",
    "target.tokens" and "target.offsets".
    """

    counts: PartCounts
    shards: tuple[dict[str, StoredArray], ...]


@dataclass(frozen=True)
class Manifest:
    """The whole of ``manifest.json`` but its format version."""

    kind: Kind
    sources: tuple[str, ...]
    split: str
    fingerprint: str
    tokenizer_fingerprint: str
    vocab_size: int
    roles: TokenRoles
    train: PartManifest
    validation: PartManifest

    def part(self, part: Part) -> PartManifest:
        """One of the two parts."""
        return self.train if part == "train" else self.validation

    def begins_with(self, side: str) -> int:
        """The special tokens before a document's first word; after its last one there is one more."""
        return len(self.roles.stored_start(side))

    def record(self, path: Path, *, reused: bool = False) -> DatasetRecord:
        """The numbers that travel up to whoever shows them."""
        return DatasetRecord(
            path=str(path),
            kind=self.kind,
            sources=self.sources,
            split=self.split,
            fingerprint=self.fingerprint,
            tokenizer_fingerprint=self.tokenizer_fingerprint,
            vocab_size=self.vocab_size,
            train=self.train.counts,
            validation=self.validation.counts,
            reused=reused,
        )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``manifest.json`` into `folder`."""
    write_json(folder / MANIFEST_NAME, {"format_version": FORMAT_VERSION, **asdict(manifest)})


def read_manifest(folder: Path) -> Manifest:
    """Read ``manifest.json`` from `folder`.

    Raises:
        UsageError: there is no such folder or manifest, or it is of a format that is not read here.
        BrokenInputError: the manifest is damaged.
    """
    if not folder.is_dir():
        problem = f"{folder} is a file, not a folder" if folder.exists() else f"There is no folder {folder}"
        raise UsageError(problem, "give a folder made by `tfcli prepare`")
    path = folder / MANIFEST_NAME
    if not path.exists():
        raise UsageError(f"{folder} is no prepared dataset, it has no {MANIFEST_NAME}", "make one with `tfcli prepare`")
    values = read_versioned(path, FORMAT_VERSION, _BEFORE_TEXT_START, remedy=_RESTORE, refusal=UsageError)[1]
    manifest: Manifest = validated(Manifest, values, path, _RESTORE)
    for problem in _contradictions(manifest):
        raise BrokenInputError(f"{path} {problem}", _RESTORE)
    return manifest


def _contradictions(manifest: Manifest) -> Iterator[str]:
    """What no prepared dataset says."""
    roles, size = manifest.roles, manifest.vocab_size
    if not 1 <= size <= _MOST_IDS:
        yield f"is damaged at vocab_size, which is {shortened(str(size))}"
    if not roles.target_prefix:
        yield "is damaged at roles.target_start, which is empty"
    for token_id in (*roles.ids(), *roles.source_start, *roles.target_prefix):
        if not 0 <= token_id < size:
            yield f"is damaged at roles: there is no id {shortened(str(token_id))} among {size}"
    for name in PARTS:
        part = manifest.part(name)
        yield from _impossible_counts(name, part.counts)
        if not part.shards:
            yield f"is damaged at {name}.shards, which are none"
        for number, shard in enumerate(part.shards):
            where = f"{name}.shards.{number}"
            arrays = {array_name(side, array) for side in SIDES[manifest.kind] for array in ("tokens", "offsets")}
            if set(shard) != arrays:
                yield f"is damaged at {where}: {manifest.kind} have {' and '.join(sorted(arrays))}"
            for array, stored in shard.items():
                if stored.file != file_name(name, number, array):
                    given = shortened(repr(stored.file))
                    yield f"names the file {given}, which is outside its folder or not that of {where}.{array}"
                if not _DIGEST.fullmatch(stored.digest):
                    yield f"is damaged at {where}.{array}.digest"


def _impossible_counts(name: str, counts: PartCounts) -> Iterator[str]:
    bounds = {
        "documents": (counts.documents, 1, counts.tokens),
        "characters": (counts.characters, 1, counts.bytes),
        "bytes": (counts.bytes, 1, 4 * counts.characters),
        "unknown": (counts.unknown, 0, counts.tokens),
    }
    for key, (value, least, most) in bounds.items():
        if not least <= value <= most:
            yield f"is damaged at {name}.counts.{key}, which is {shortened(str(value))}"
