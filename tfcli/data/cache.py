"""The cache: prepared datasets and trained tokenizers that runs share, what they take, and how they are removed.

A process that reads an entry holds a shared lock of its folder until it ends, and sets the time of its manifest, which
is when it was last used. Who removes one holds all of the lock. One that is gone is made again from its sources."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

from tfcli.data.shards import MANIFEST_NAME, read_manifest
from tfcli.errors import TfcliError
from tfcli.files import Lock, cache_folder, is_locked, patient_lock, read_json
from tfcli.records.dataset import CacheEntry, Kind, State

_ENTRY = re.compile(r"[0-9a-f]{16}|\.[0-9a-f]{16}\.[0-9a-f]{16}\.(tmp|chunks)")  # or one begun, or half removed
_ABANDONED = 3600.0  # seconds after which nobody writes any more into an entry that is not finished
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
    """What is in the cache, last used first; other files are not looked at. A UsageError where its place is unknown."""
    found = []
    for kind in _KINDS:
        folder = cache_folder() / f"{kind}s"
        for path in folder.iterdir() if folder.is_dir() else ():
            if _ENTRY.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                with suppress(FileNotFoundError, PermissionError):  # it has just gone; or it is another user's
                    found.append(_entry(kind, path))
    return sorted(found, key=lambda entry: (entry.age_seconds, entry.path))


def prune(older_than: float, *, dry_run: bool = False) -> Iterator[tuple[CacheEntry, str]]:
    """Remove what nobody used for so many seconds. Yields each, and why it is left ("": gone). Errors as `entries`."""
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
    size, age = sum(one.st_size for one in files), max(0.0, time.time() - changed)
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
        shutil.rmtree(path.rename(path.with_name(f".{path.name.removeprefix('.')[:16]}.{secrets.token_hex(8)}.tmp")))
    except OSError as error:
        return f"cannot be removed: {error.strerror}"
    finally:
        lock.release()
    return ""
