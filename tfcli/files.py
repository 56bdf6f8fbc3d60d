"""Files that are never half-written: write to a temporary name, flush, rename."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tfcli.errors import BrokenInputError, TfcliError, UsageError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; on success it becomes `path`, on failure nothing is left.

    Raises:
        TfcliError: the folder cannot be written to, or the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # safetensors writes files that their owner alone can read
        flush(temporary)
        temporary.replace(path)
        flush(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with suppress(OSError):  # where it could not even be made, that is the error to tell
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new temporary folder beside `path`; on success it is renamed to `path`, which must not exist, and is on
    the disk with all that is in it and all that leads to it.

    Raises:
        TfcliError: the parent cannot be written to, or the disk is full.
    """
    try:
        made = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
        temporary.chmod(0o777 & ~_umask())
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        yield temporary
        for inside in (*temporary.rglob("*"), temporary):  # a folder's own flush keeps the names in it
            flush(inside)
        temporary.rename(path)
        for folder in (path.parent, *(one.parent for one in made)):
            flush(folder)
    except TfcliError as error:  # of a file inside: told by the name that the user knows
        if str(temporary) not in error.problem:
            raise
        raise TfcliError(error.problem.replace(str(temporary), str(path)), error.remedy) from error
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON to `path`, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UsageError: it is not there, or is a pipe.
        BrokenInputError: it is no JSON.
    """
    if path.is_fifo():
        raise UsageError(f"{path} is a pipe, which may never end", "name a file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"There is no file {path}", "check the path") from error
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    except ValueError as error:
        raise BrokenInputError(f"{path} is not valid JSON ({error})", "restore the file or make it again") from error
    except RecursionError as error:
        raise BrokenInputError(f"{path} is nested too deeply", "restore the file or make it again") from error


def require_writable(folder: Path) -> None:
    """Refuse, before any work is done, a folder that cannot be made or written to.

    Raises:
        UsageError: naming the folder and the reason.
    """
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise UsageError(f"{existing} is a file, not a folder", "choose another output folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(
            f"The folder {existing} is not writable", "choose another output folder or change its permissions"
        )


def cache_folder() -> Path:
    """Where prepared datasets and trained tokenizers live: ``TFCLI_CACHE``, else the XDG cache."""
    if chosen := os.environ.get("TFCLI_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "tfcli"


def digest(*parts: Any) -> str:
    """A short fingerprint of JSON-able parts or bytes: the same parts give the same 16 hex digits, anywhere."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True, ensure_ascii=False).encode()
        hasher.update(len(data).to_bytes(8, "little") + data)
    return hasher.hexdigest()[:16]


def file_digest(path: Path) -> str:
    """A short fingerprint of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def flush(path: Path) -> None:
    """Wait until a file's bytes, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> TfcliError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free the disk or choose another folder" if is_full else "choose another folder"
    return TfcliError(f"Cannot write {path}: {error.strerror or error}", remedy)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
