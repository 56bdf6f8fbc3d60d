"""Shards of a prepared dataset, and the manifest with their fingerprint and checksums."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tfcli.corpora import PARTS, TASKS, Kind, Part
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.files import file_digest, read_versioned, validated, write_json
from tfcli.records.dataset import NONE_SKIPPED, DatasetRecord, MixedSource, PartCounts, SkippedRecords, TableReading
from tfcli.records.roles import TokenRoles

FORMAT_VERSION = 3
_BEFORE_MIXTURES = 2  # what none of these is in, and is written still where there is none
_READ = (FORMAT_VERSION, _BEFORE_MIXTURES, 1)  # in 1 every text begins with bos, even where that ends another one
_WHERE_THERE_ARE = ("mixture", "earlier", "skipped", "copies", "removed", "labels", "tables")
MANIFEST_NAME = "manifest.json"
SIDES: dict[Kind, tuple[str, ...]] = {"text": ("",), **dict.fromkeys(("pairs", *TASKS), ("source", "target"))}
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
    """The training or the validation part. A shard maps "tokens" and "offsets" to their files; for pairs
    "source.tokens", "source.offsets", "target.tokens" and "target.offsets"."""

    counts: PartCounts
    shards: tuple[dict[str, StoredArray], ...]


@dataclass(frozen=True)
class Edition:
    """An earlier state of a dataset: the counts and the number of the first shards of each part, which stay."""

    fingerprint: str
    sources: tuple[str, ...]
    train: tuple[PartCounts, int]
    validation: tuple[PartCounts, int]


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
    mixture: tuple[MixedSource, ...] = ()  # the sources of the training part, where they have weights
    earlier: tuple["Edition", ...] = ()  # what it was before each time that documents were appended, in that order
    skipped: SkippedRecords = NONE_SKIPPED  # the records that were left out because they could not be read
    copies: int = 0  # validation documents that stand in training, too, letter for letter
    removed: dict[str, int] = field(default_factory=dict)  # how many documents were left out before, for each reason
    labels: tuple[str, ...] = ()  # of labelled texts; the target's numbers count them from 1 (`data/labelled.py`)
    tables: tuple[TableReading, ...] = ()  # how CSV and TSV files were read; an older dataset does not say

    def edition(self, fingerprint: str) -> "Manifest | None":
        """The dataset as it was known by a fingerprint, which is that of today or an earlier one."""
        if fingerprint == self.fingerprint:
            return self
        for number, one in enumerate(self.earlier):
            if one.fingerprint == fingerprint:
                were = {part: getattr(one, part) for part in PARTS}
                parts: Any = {p: PartManifest(counts, self.part(p).shards[:many]) for p, (counts, many) in were.items()}
                parts |= {"fingerprint": fingerprint, "sources": one.sources, "earlier": self.earlier[:number]}
                parts["tables"] = tuple(table for table in self.tables if table.source in one.sources)
                return replace(self, **parts, removed={})
        return None

    def part(self, part: Part) -> PartManifest:
        """One of the two parts."""
        return self.train if part == "train" else self.validation

    def record(self, path: Path, *, reused: bool = False) -> DatasetRecord:
        """The numbers that travel up to whoever shows them."""
        shown = {**vars(self), "train": self.train.counts, "validation": self.validation.counts}
        del shown["roles"], shown["earlier"]
        return DatasetRecord(str(path), **shown, reused=reused)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``manifest.json`` into `folder`."""
    left_out = {name for name in _WHERE_THERE_ARE if not getattr(manifest, name)}
    values = {name: value for name, value in asdict(manifest).items() if name not in left_out}
    version = _BEFORE_MIXTURES if left_out == {*_WHERE_THERE_ARE} else FORMAT_VERSION
    write_json(folder / MANIFEST_NAME, {"format_version": version, **values})


def read_manifest(folder: Path) -> Manifest:
    """Read ``manifest.json`` from `folder`. A UsageError where there is no such folder or manifest, or it is of a
    format that is not read here; BrokenInputError where it is damaged."""
    if not folder.is_dir():
        problem = f"{folder} is a file, not a folder" if folder.exists() else f"There is no folder {folder}"
        raise UsageError(problem, "give a folder made by `tfcli prepare`")
    path = folder / MANIFEST_NAME
    if not path.exists():
        raise UsageError(f"{folder} is no prepared dataset, it has no {MANIFEST_NAME}", "make one with `tfcli prepare`")
    _, values = read_versioned(path, *_READ, remedy=_RESTORE, refusal=UsageError)
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
    if not 0 <= manifest.copies <= manifest.validation.counts.documents:
        yield f"is damaged at copies, which is {shortened(str(manifest.copies))}"
    for name in PARTS:
        part = manifest.part(name)
        one = part.counts
        most = {"documents": one.tokens, "characters": one.bytes, "bytes": 4 * one.characters, "unknown": one.tokens}
        for key, largest in most.items():
            if not (0 if key == "unknown" else 1) <= (value := getattr(one, key)) <= largest:
                yield f"is damaged at {name}.counts.{key}, which is {shortened(str(value))}"
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


SHARD_TOKENS = 64_000_000  # a shard is closed at the end of the document that brings it to this many ids
OFFSETS = np.dtype(np.int64)
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00[\s\S]{2}\{'descr': '([<>]\w\d)', 'fortran_order': False, 'shape': \((\d{1,18}),\), \} *\n"
)
_START = 10  # bytes up to the rest of the header, of which the last two are its length
_CHUNK = 1 << 20  # bytes that are read at a time, and compared while they are in the processor's cache


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The smallest of uint16 and uint32 that holds every id."""
    return np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)


class _GrowingArray:
    """A one-dimensional ``.npy`` file that is appended to; its header gets the length when it is finished."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path, self.dtype, self.length = path, dtype, 0
        self.file = path.open("wb")
        self._write_header()

    def append(self, values: ArrayLike) -> None:
        array = np.asarray(values, dtype=self.dtype)
        self.file.write(array.data)
        self.length += array.size

    def finish(self) -> StoredArray:
        body = self._header_end
        self.file.seek(0)
        self._write_header()
        assert self._header_end == body, "numpy leaves room in the header for any length"
        self.file.close()
        return StoredArray(self.path.name, self.path.stat().st_size, file_digest(self.path))

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self.file, header)
        self._header_end = self.file.tell()


class PartWriter(AbstractContextManager["PartWriter"]):
    """Writes one part, document by document: ``train-00000.tokens.npy``, ``train-00000.offsets.npy`` and so on. `sides`
    is ("",) for text, ("source", "target") for pairs. Leaving the ``with`` block closes open files."""

    def __init__(
        self, folder: Path, part: str, sides: tuple[str, ...], dtype: np.dtype[Any], shard_tokens: int, first: int = 0
    ) -> None:
        self.shards: list[dict[str, StoredArray]] = []
        self._folder, self._part, self._sides = folder, part, sides
        self._dtype, self._shard_tokens, self._first = dtype, shard_tokens, first
        self._open: dict[str, _GrowingArray] = {}
        self._ended: dict[str, int] = {}

    def __exit__(self, *error: object) -> None:
        for array in self._open.values():
            array.file.close()

    def write(self, sides: Mapping[str, tuple[NDArray[Any], NDArray[np.int64]]]) -> None:
        """Go on with the ids of each side, and where documents end in them. Of a pair the source may end in the call
        before the one in which its target does."""
        places = dict.fromkeys(self._sides, (0, 0))
        held = sum(len(ids) for ids, _ in sides.values())
        while True:
            side = min(self._sides, key=lambda each: self._ended.get(each, 0))
            (ids, ends), (place, number) = sides[side], places[side]
            if place == len(ids) and number == len(ends):
                return
            # Documents that cannot fill the shard are written at once; of pairs, one after the other.
            if not self._open:
                self._open_shard()
            written = sum(self._open[array_name(each, "tokens")].length for each in self._sides)
            many = len(self._sides) == 1 and written + held < self._shard_tokens
            some = ends[number:] if many else ends[number : number + 1]
            stop = len(ids) if many or not len(some) else int(some[0])
            array = self._open[array_name(side, "tokens")]
            array.append(ids[place:stop])
            if len(some):
                self._open[array_name(side, "offsets")].append(array.length - (stop - some))
                self._ended[side] = self._ended.get(side, 0) + len(some)
                if side == self._sides[-1] and written + stop - place >= self._shard_tokens:
                    self.finish_shard()
            places[side] = stop, number + len(some)

    def finish_shard(self) -> None:
        """Close the shard that is being written, if there is one."""
        if self._open:
            self.shards.append({name: array.finish() for name, array in self._open.items()})
            self._open = {}

    def _open_shard(self) -> None:
        for side in self._sides:
            for array, dtype in (("tokens", self._dtype), ("offsets", OFFSETS)):
                name = array_name(side, array)
                path = self._folder / file_name(self._part, self._first + len(self.shards), name)
                self._open[name] = _GrowingArray(path, dtype)
            self._open[name].append([0])


class ShardArray:
    """One file of a shard. Opening it reads its header; what it holds is compared, once and as a whole, before any of
    it is given out. BrokenInputError where it is missing, not what was written, or no such array."""

    def __init__(self, folder: Path, stored: StoredArray, dtype: np.dtype[Any]) -> None:
        self.path = folder / stored.file
        self._stored, self._dtype = stored, dtype
        self._header, self._length = self._read_header()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, where: slice) -> NDArray[Any]:
        return self.values[where]

    @cached_property
    def values(self) -> NDArray[Any]:
        """All of it, on disk; BrokenInputError where it has changed since it was written, or holds what it cannot."""
        try:
            largest = self._largest()
            # A plain array over the map: slicing a numpy.memmap itself costs several times as much.
            values = np.asarray(np.memmap(self.path, self._dtype, "r", len(self._header), (self._length,)))
        except (OSError, ValueError) as error:
            raise self.broken(f"cannot be read ({error})") from error
        if problem := self._problem(values, largest):
            raise self.broken(problem)
        return values

    def _largest(self) -> int:
        """The largest number, found while the digest is compared. Pages that are read are not mapped: a process would
        seem to need memory for the whole shard."""
        with self.path.open("rb") as file:
            hasher = hashlib.sha256(file.read(len(self._header)))
            buffer, largest = bytearray(_CHUNK), 0
            while size := file.readinto(buffer):
                some = memoryview(buffer)[:size]
                hasher.update(some)
                largest = max(largest, int(np.frombuffer(some, self._dtype).max()))
        if hasher.hexdigest()[: len(self._stored.digest)] != self._stored.digest:
            raise self.broken("has changed since it was written")
        return largest

    def broken(self, problem: str) -> BrokenInputError:
        """What to raise over this file."""
        remedy = f"remove the folder {self.path.parent} and prepare the text again"
        return BrokenInputError(f"{self.path} {problem}", remedy)

    def _problem(self, values: NDArray[Any], largest: int) -> str | None:
        """What is wrong with the numbers."""
        raise NotImplementedError

    def _read_header(self) -> tuple[bytes, int]:
        """What stands before the numbers, and how many there are."""
        if not self.path.is_file():
            raise self.broken("is no file" if self.path.exists() else "is missing")
        try:
            size = self.path.stat().st_size
            with self.path.open("rb") as file:
                header = file.read(_START)
                header += file.read(int.from_bytes(header[-2:], "little"))
        except OSError as error:
            raise self.broken(f"cannot be read ({error.strerror})") from error
        if size != self._stored.size:
            raise self.broken(f"has {size} bytes where {self._stored.size} were written")
        found = _HEADER.fullmatch(header)
        descr = np.lib.format.dtype_to_descr(self._dtype)
        if not found or found[1].decode() != descr:
            raise self.broken(f"is no array of one dimension and type {descr}")
        length = int(found[2])
        if len(header) + length * self._dtype.itemsize != size:
            raise self.broken(f"has {size} bytes, which are not the {length} numbers that its header tells of")
        return header, length


class ShardOffsets(ShardArray):
    """Where each document of a shard begins, and where the last one ends; each has `shortest` ids at least."""

    def __init__(self, folder: Path, stored: StoredArray, tokens: "ShardTokens", shortest: int) -> None:
        super().__init__(folder, stored, OFFSETS)
        self._end, self._shortest = len(tokens), shortest
        if len(self) < 2:
            raise self.broken("tells of no document")
        tokens.offsets = self

    def _problem(self, values: NDArray[Any], largest: int) -> str | None:
        if values.min() < 0 or largest > self._end:
            return f"has offsets outside the {self._end} ids of its shard"
        if np.diff(values).min() < self._shortest:
            return f"has documents of fewer than {self._shortest} ids"
        if (values[0], values[-1]) != (0, self._end):
            return f"does not go from 0 to the {self._end} ids of its shard"
        return None


class ShardTokens(ShardArray):
    """The ids of a shard, each below `vocab_size`, with the offsets, which are compared with them."""

    offsets: ShardOffsets

    def __init__(self, folder: Path, stored: StoredArray, vocab_size: int) -> None:
        super().__init__(folder, stored, token_dtype(vocab_size))
        self._vocab_size = vocab_size

    def _problem(self, values: NDArray[Any], largest: int) -> str | None:
        _ = self.offsets.values
        if largest >= self._vocab_size:
            return f"holds the id {largest}, and its tokenizer has {self._vocab_size}"
        return None
