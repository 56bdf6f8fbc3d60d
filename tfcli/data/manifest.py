"""``manifest.json``: what a prepared dataset holds, and how to know that it is whole."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfcli.corpora.source import Kind
from tfcli.errors import BrokenInputError, UsageError
from tfcli.files import read_json, write_json
from tfcli.records.dataset import DatasetRecord, PartCounts
from tfcli.records.roles import TokenRoles

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"


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
    values = read_json(path)
    version = values.pop("format_version", None) if isinstance(values, dict) else None
    if version != FORMAT_VERSION:
        raise UsageError(
            f"{path} has format version {version!r}, and this tfcli reads {FORMAT_VERSION}",
            "prepare the text again, or use the tfcli that wrote it",
        )
    return _validated(path, values)


def _validated(path: Path, values: dict[str, Any]) -> Manifest:
    from pydantic import TypeAdapter, ValidationError

    try:
        manifest = TypeAdapter(Manifest).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(name) for name in first["loc"])
        raise BrokenInputError(
            f"{path} is damaged at {where} ({first['msg']})", "restore it or prepare the text again"
        ) from error
    for part in (manifest.train, manifest.validation):
        for stored in (stored for shard in part.shards for stored in shard.values()):
            if Path(stored.file).name != stored.file:
                raise BrokenInputError(
                    f"{path} names the file {stored.file!r} outside its folder", "prepare the text again"
                )
    return manifest
