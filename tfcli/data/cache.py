"""Preparing text once: token shards in a cache that runs share.

A process that reads an entry holds a shared lock of its folder until it ends, and sets the time of its manifest, which
is when it was last used. Who removes one holds the whole lock. An entry that is gone is made again from its sources.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tfcli.corpora import PARTS, PIECE_CHARACTERS, Document, Pair, Part, Text, pieces
from tfcli.data.dataset import PreparedDataset
from tfcli.data.shards import (
    MANIFEST_NAME,
    SHARD_TOKENS,
    SIDES,
    Manifest,
    PartManifest,
    PartWriter,
    read_manifest,
    token_dtype,
    write_manifest,
)
from tfcli.errors import TfcliError, UsageError
from tfcli.files import (
    Lock,
    cache_folder,
    digest,
    is_locked,
    patient_lock,
    read_json,
    replacing_folder,
    require_writable,
)
from tfcli.records.dataset import CacheEntry, DatasetRecord, Kind, PartCounts, State

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.tokenization.tokenizer import Tokenizer


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


TOKENIZER_NAME = "tokenizer.json"
_VERSION = 1
"""Of what is stored: a number that changes would make every dataset anew."""


def prepare(
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    out: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> DatasetRecord:
    """Encode a corpus into `out`, with the tokenizer beside it, or find it there already.

    A text document is stored as ``<s> ids </s>``; of a pair the source as ``ids </s>`` and the target as
    ``<s> ids </s>``, or as the roles of the tokenizer say: ``ids </s>`` for GPT-2's text, ``<s> ids </s>`` and
    ``</s> <s> ids </s>`` for BART's pairs.
    `progress` receives the documents and tokens done so far.

    The counts of a part: `tokens` are the stored ids but those that begin a document, which are never news (a
    document of n ids counts n + 1, and a pair counts both sides); `bytes` (UTF-8) and `characters` are of the
    text itself, of a pair's target; `unknown` are ids of the unknown token, `words` what stands between white space,
    of both sides; `spread` is √(Σ (pieces − mean · words)² / Σ words) over the texts.

    Raises:
        UsageError: `out` holds something else, or cannot be written to, or a part has no text.
    """
    if found := _existing(division, tokenizer, out):
        return found
    require_writable(out)
    try:
        with replacing_folder(out) as folder:
            manifest = _write(division, tokenizer, folder, progress, shard_tokens)
    except TfcliError:
        # Of two processes that prepare the same for a shared cache, the later one takes what the other made.
        if found := _existing(division, tokenizer, out):
            return found
        raise
    return manifest.record(out)


def dataset_fingerprint(division: TrainValidationSplit, tokenizer: Tokenizer) -> str:
    """What a dataset of this text, this division and this tokenizer is known by."""
    return digest("prepared dataset", _VERSION, division.fingerprint, tokenizer.fingerprint)


def _existing(division: TrainValidationSplit, tokenizer: Tokenizer, out: Path) -> DatasetRecord | None:
    """The record of the same dataset in `out`; None where `out` is free."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / MANIFEST_NAME).exists():
        what = "already holds other files" if out.is_dir() else "is a file, not a folder"
        raise UsageError(f"{out} {what}", "choose another output folder")
    dataset = PreparedDataset.open(out)
    if dataset.manifest.fingerprint == dataset_fingerprint(division, tokenizer):
        return dataset.record(reused=True)
    manifest, source = dataset.manifest, division.source
    compared = {
        "tokenizer": (manifest.tokenizer_fingerprint, tokenizer.fingerprint),
        "kind": (manifest.kind, source.kind),
        "source": (", ".join(manifest.sources), ", ".join(source.names)),
        "split": (manifest.split, division.split),
    }
    differences = (f"its {name} is {there}, not {here}" for name, (there, here) in compared.items() if there != here)
    why = next(differences, "the text, or how it is divided, has changed since")
    problem = f"{out} already holds another prepared dataset: {why}"
    raise UsageError(problem, "choose another output folder or remove this one")


def _write(
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    folder: Path,
    progress: Callable[[int, int], None] | None,
    shard_tokens: int,
) -> Manifest:
    sides = SIDES[division.source.kind]
    dtype = token_dtype(tokenizer.vocab_size)
    with ExitStack() as stack:
        tallies = {
            part: _Tally(stack.enter_context(PartWriter(folder, part, sides, dtype, shard_tokens))) for part in PARTS
        }
        for batch in batched(document_pieces(division.parts())):
            encoded = tokenizer.encode_batch([piece.text for piece in batch])
            for piece, ids in zip(batch, encoded, strict=True):
                tallies[piece.part].add(piece, ids, tokenizer)
            if progress:
                done = tallies.values()
                progress(sum(tally.documents for tally in done), sum(tally.tokens for tally in done))
        for part, tally in tallies.items():
            if tally.characters == 0:
                names = ", ".join(division.source.names)
                problem = (
                    f"The {part} part of {names} has no text (split {division.split}, {tally.documents} documents)"
                )
                raise UsageError(problem, "give more text, or change data.split or data.validation_fraction")
            tally.writer.finish_shard()
    tokenizer.save(folder / TOKENIZER_NAME)
    manifest = Manifest(
        kind=division.source.kind,
        sources=tuple(division.source.names),
        split=division.split,
        fingerprint=dataset_fingerprint(division, tokenizer),
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocab_size=tokenizer.vocab_size,
        roles=tokenizer.roles,
        **{part: PartManifest(tally.counts(), tuple(tally.writer.shards)) for part, tally in tallies.items()},
    )
    write_manifest(folder, manifest)
    return manifest


class _Tally:
    """Writes the pieces of one part and counts them."""

    def __init__(self, writer: PartWriter) -> None:
        self.writer = writer
        self.documents = self.tokens = self.bytes = self.characters = self.unknown = 0
        self.pieces = self.words = self.squares = self.products = self.word_squares = 0

    def add(self, piece: Piece, ids: list[int], tokenizer: Tokenizer) -> None:
        roles = tokenizer.roles
        self.unknown += tokenizer.count_unknown(ids)
        words = len(piece.text.split())
        self.pieces += len(ids)
        self.words += words
        self.squares += len(ids) ** 2
        self.products += len(ids) * words
        self.word_squares += words**2
        self.tokens += len(ids) + len(roles.end) * piece.last
        before = roles.stored_start(piece.side) if piece.first else ()
        self.writer.append(piece.side, [*before, *ids, *(roles.end if piece.last else ())])
        if piece.side != "source":
            self.characters += len(piece.text)
            self.bytes += len(piece.text.encode())
            self.documents += piece.last
        if piece.last:
            self.writer.end_document(piece.side)

    def counts(self) -> PartCounts:
        texts = self.documents, self.tokens, self.bytes, self.characters, self.unknown
        if not self.words:
            return PartCounts(*texts)
        mean = self.pieces / self.words
        deviations = self.squares - 2 * mean * self.products + mean**2 * self.word_squares
        return PartCounts(*texts, self.words, round(math.sqrt(max(0.0, deviations) / self.words), 4))


_ENTRY = re.compile(r"[0-9a-f]{16}|\.[0-9a-f]{16}\.[0-9a-f]{16}\.tmp")
"""A fingerprint; or the folder that is to become one, or that a removal has left."""
_ABANDONED = 3600.0
"""Seconds after which nobody writes any more into an entry that is not finished."""
_KINDS: tuple[Kind, ...] = get_args(Kind)

_used: dict[Path, Lock] = {}


def used(folder: Path) -> None:
    """Note that this process reads an entry from now on, if it is there."""
    with suppress(OSError):  # it is not there, or its file system locks nothing
        if folder not in _used:
            _used[folder] = patient_lock(folder, shared=True)
    with suppress(OSError):  # it is somebody else's
        os.utime(folder / MANIFEST_NAME)


def entries() -> list[CacheEntry]:
    """What is in the cache, what was used last first. Nothing else that lies there is looked at.

    Raises:
        UsageError: nobody knows where the cache is.
    """
    found = []
    for kind in _KINDS:
        folder = cache_folder() / f"{kind}s"
        for path in folder.iterdir() if folder.is_dir() else ():
            if _ENTRY.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                with suppress(FileNotFoundError, PermissionError):  # it has just gone; or it is another user's
                    found.append(_entry(kind, path))
    return sorted(found, key=lambda entry: (entry.age_seconds, entry.path))


def prune(older_than: float, *, dry_run: bool = False) -> Iterator[tuple[CacheEntry, str]]:
    """Remove what nobody has used for so many seconds. Yields each, and why it has been left ("": it is gone).

    Raises:
        UsageError: nobody knows where the cache is.
    """
    for entry in entries():
        if entry.age_seconds >= older_than:
            yield entry, _kept(entry) or ("" if dry_run else _removed(Path(entry.path)))


def _entry(kind: Kind, path: Path) -> CacheEntry:
    files = [Path(folder, name).lstat() for folder, _, names in os.walk(path) for name in names]
    manifest = path / MANIFEST_NAME
    sources: tuple[str, ...] = ()
    state: State = "in use" if is_locked(path) else "whole"
    if path.name.startswith(".") or not manifest.is_file():
        state, changed = "unfinished", max(one.st_mtime for one in (path.stat(), *files))
    else:
        changed = manifest.stat().st_mtime
        try:
            if kind == "dataset":
                sources = read_manifest(path).sources
            elif isinstance(values := read_json(manifest), dict) and isinstance(listed := values.get("sources"), list):
                sources = tuple(map(str, listed))
        except TfcliError:
            state = "damaged"
    size = sum(one.st_size for one in files)
    age = max(0.0, time.time() - changed)
    return CacheEntry(kind, str(path), sources=sources, size=size, age_seconds=age, state=state)


def _kept(entry: CacheEntry) -> str:
    """Why an entry stays where it is, however old."""
    if entry.state == "in use":
        return "in use"
    if entry.state == "unfinished" and entry.age_seconds < _ABANDONED:
        return "being made, or left less than an hour ago"
    piped = entry.kind == "dataset" and "-" in entry.sources  # a run has its own copy of its tokenizer
    return "read from standard input, it cannot be made again" if piped else ""


def _removed(path: Path) -> str:
    """Remove a folder, which is gone at once under its name; else why it could not be."""
    try:
        lock = Lock(path)
    except OSError as error:
        return "in use" if isinstance(error, BlockingIOError) else f"cannot be locked: {error.strerror}"
    try:
        aside = path.rename(path.with_name(f".{path.name.removeprefix('.')[:16]}.{secrets.token_hex(8)}.tmp"))
        shutil.rmtree(aside)
    except OSError as error:
        return f"cannot be removed: {error.strerror}"
    finally:
        lock.release()
    return ""
