"""Files: written whole or not at all, read with a version; file locks; the cache folder.

Where Python has `fcntl`, a lock is held on the file or folder itself. Where it has not, as on Windows, where nobody
could read a locked file, the lock is a hidden file beside it (`.NAME.lock`).
"""

import errno
import functools
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tfcli.errors import BrokenInputError, TfcliError, UsageError, json_fault, shortened
from tfcli.machine import of_unix

fcntl = of_unix("fcntl")
_LOCK_ATTEMPTS = 3
_MARKERS = ("recipe.toml", "manifest.json")  # of a run and a prepared dataset: the last names of a folder to be filled
_LONGEST_NAME = 200  # bytes of a name that go into that of its temporary file; file systems take 255
_OPENS_FOLDERS = hasattr(os, "O_DIRECTORY")
"""Windows opens none, and flushes only what it may write to; its file system keeps the order of names by itself."""
_ATTEMPTS = 20  # to make a folder that other processes make and remove at the same time
_made: set[Path] = set()
"""Folders that this process has made to hold them (`claimed`). Others are the user's own, and stay what they are."""


class Lock:
    """A file or a folder that is locked until `release`; `shared` with others that want no more, where there is such. A
    BlockingIOError where another process holds it, an OSError where it is not there, or cannot be locked."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        path = Path(os.path.abspath(path))  # noqa: PTH100 (it may be ".", which has no name)
        is_folder = stat.S_ISDIR(path.stat().st_mode)
        with ExitStack() as held:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of systems that have no locks of their own
                from filelock import FileLock, Timeout, lock_descriptor

                if fcntl is None:
                    beside = FileLock(path.with_name(f".{path.name}.lock"), timeout=0, thread_local=False)
            if fcntl is None:
                try:
                    held.enter_context(beside)
                except Timeout as error:
                    raise BlockingIOError from error
            else:
                self._descriptor = os.open(path, os.O_RDONLY if shared or is_folder else os.O_RDWR)
                held.callback(os.close, self._descriptor)
                if shared:
                    fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                elif not lock_descriptor(self._descriptor, blocking=False):
                    raise BlockingIOError
            self.release = held.pop_all().close
            """Let go."""

    def is_of(self, path: Path) -> bool:
        """Whether what is locked is at this path now; a FileNotFoundError where nothing is."""
        there = path.stat()
        return fcntl is None or os.path.samestat(os.fstat(self._descriptor), there)


def patient_lock(path: Path, *, shared: bool = False) -> Lock:
    """As `Lock`, at once or after the instants in which others ask `is_locked`."""
    for _ in range(_LOCK_ATTEMPTS - 1):
        with suppress(BlockingIOError):
            return Lock(path, shared=shared)
        time.sleep(0.02)
    return Lock(path, shared=shared)


def is_locked(path: Path, *, shared: bool = False) -> bool:
    """Whether another process holds a lock; with `shared`, one that it shares with nobody."""
    try:
        Lock(path, shared=shared).release()
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


class Taken(UsageError):  # noqa: N818 (a UsageError)
    """A folder that something is in, or that another process makes now."""


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary file beside `path`, made for this; on success it becomes `path`, on failure nothing is left.
    A TfcliError where the folder cannot be written to, or the disk is full. `durable`: wait until it is on the disk."""
    temporary = _temporary(path.parent, path.name)
    try:  # from before it is made: a signal that comes while the disk is waited for is heard behind that
        # The system takes the umask off; safetensors would write a file that its owner alone can read.
        made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        mode = stat.S_IMODE(os.fstat(made).st_mode)
        os.close(made)
        yield temporary
        temporary.chmod(mode)
        if durable:
            flush(temporary)
        temporary.replace(path)
        if durable:
            flush(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with suppress(OSError):  # where it could not even be made, that is the error to tell
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new temporary folder; on success all that is in it stands at `path`, whole, and is on the disk with all
    that leads to it; one that the user has made, such as a mounted one, is filled name by name, its marker last.
    Nothing may be at `path` but an empty folder. A TfcliError where it cannot be written."""
    try:
        filled = path.is_dir() and path not in _made
        if filled:
            _require_alone(path)
        made = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    temporary = _temporary(path, "") if filled else _temporary(path.parent, path.name)
    try:
        temporary.mkdir()
        yield temporary
        for inside in (*temporary.rglob("*"), temporary):  # a folder's own flush keeps the names in it
            flush(inside)
        if filled:
            _require_alone(path, temporary)
            for inside in sorted(temporary.iterdir(), key=lambda entry: entry.name in _MARKERS):
                inside.rename(path / inside.name)
            flush(path)
        else:
            _put(temporary, path)
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


@contextmanager
def claimed(path: Path, *, new: bool = False, lacks: str = "") -> Iterator[None]:
    """Hold an empty folder, made at once and locked, until what it is for is in it. What is left empty goes again, if
    it was made here. Where no folders are locked (NFS), still only one process can make it. `new`: refuse even an empty
    folder that is there already. Raises Taken where something is in it (and `lacks` what is wanted: " and holds no
    run") or another process holds it, and a UsageError where it cannot be made or written to."""
    made: list[Path] = []
    lock: Lock | None = None
    try:
        try:
            lock = _held(path, made, new, lacks)
        except Taken:
            made.clear()  # they are the other process's by now
            raise
        if path in made:
            _made.add(path)
        yield
    finally:
        _made.discard(path)
        _remove_empty(made[-1:])
        if lock is not None:
            lock.release()  # before what the file of a lock may lie in
        _remove_empty(made[-2::-1])


def _held(path: Path, made: list[Path], new: bool, lacks: str) -> Lock | None:
    """Make the folder and those that lead to it, noting them in `made`, and lock it; None where nothing can be."""
    for _ in range(_ATTEMPTS):
        with ExitStack() as unlocking:
            try:
                if os.path.lexists(path) and not path.is_dir():
                    raise Taken(f"{path} is a file", "choose another --out")
                require_writable(path)
                for folder in (*reversed(path.parents), path):
                    if not folder.is_dir():
                        made.append(folder)  # before: a signal while the disk is waited for is heard behind that
                        try:
                            folder.mkdir()
                        except OSError as error:
                            made.remove(folder)
                            if not isinstance(error, FileExistsError):  # made by another process just now
                                raise
                if new and path not in made:
                    raise Taken(f"{path} is there already", "choose another --out")
                lock = _locked(path)
                if lock is not None:
                    unlocking.callback(lock.release)
                    sweep(path)
                if any(path.iterdir()):
                    raise Taken(f"The folder {path} is not empty{lacks}", "choose another --out")
                if lock is None or lock.is_of(path):
                    unlocking.pop_all()
                    return lock
            except FileNotFoundError:  # it has gone again: another process made it, and has failed
                continue
            except OSError as error:
                raise UsageError(f"Cannot make {path}: {error.strerror}", "choose another --out") from error
    raise UsageError(f"Cannot make {path}: other processes keep removing it", "choose another --out")


def _locked(path: Path) -> Lock | None:
    """The lock of a folder; None on a file system that has none."""
    try:
        return Lock(path)
    except BlockingIOError as error:
        raise Taken(f"Another process is making {path}", "wait until it has ended, or choose another --out") from error
    except OSError:
        return None


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # something is in it
            folder.rmdir()


def sweep(path: Path) -> None:
    """Remove what a kill has left of an earlier attempt at this folder. Only for who holds it."""
    for folder, name in ((path, ""), (path.parent, path.name)):
        for left in folder.glob(".*.tmp"):
            if re.fullmatch(rf"\.{re.escape(name)}\.?[0-9a-f]{{16}}\.tmp", left.name):
                shutil.rmtree(left, ignore_errors=True)


def _temporary(folder: Path, name: str) -> Path:
    """A name that nobody can guess, and that is not too long where `name` is not."""
    begin = name.encode()[:_LONGEST_NAME].decode(errors="ignore")
    return folder / f".{begin}{'.' if begin else ''}{secrets.token_hex(8)}.tmp"


def _put(temporary: Path, path: Path) -> None:
    """Give a folder its name, at which there is nothing, or the empty folder that holds the place."""
    try:
        temporary.rename(path)
    except OSError:  # some file systems rename over no folder at all
        if path not in _made:
            raise
        path.rmdir()
        temporary.rename(path)


def _require_alone(folder: Path, *inside: Path) -> None:
    if [*folder.iterdir()] != [*inside]:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON to `path`, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file: a BrokenInputError where it is none, a UsageError where it is not there or no plain file."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"Cannot read {path}: it is no plain file", "name a file")
        text = path.read_text(encoding="utf-8")
        values = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(values, ensure_ascii=False).encode()
        return values
    except FileNotFoundError as error:
        raise UsageError(f"There is no file {path}", "check the path") from error
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    except UnicodeEncodeError:
        problem = "holds half a surrogate pair, which is no character"
    except ValueError as error:
        problem = f"is not valid JSON ({json_fault(error)})"
    except RecursionError:
        problem = "is nested too deeply"
    raise BrokenInputError(f"{path} {problem}", "restore the file or make it again")


def packaged(module: str, name: str) -> dict[str, Any]:
    """What the TOML file of this name holds that lies beside a module of this package, given by its `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


def require_size(path: Path, most: int) -> None:
    """Refuse a file of more than so many bytes, which is too large to be what its name says, before it is read."""
    if (size := path.stat().st_size) > most:
        problem = f"{path} has {size:,} bytes, and no such file needs more than {most:,}"
        raise BrokenInputError(problem, "restore the file")


def read_object(path: Path, most: int) -> dict[str, Any]:
    """Read a JSON file that holds an object, of so many bytes at most; raises as `read_json` does."""
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "is no file that can be read"
        raise UsageError(f"{path} {what}", "restore the file, or fetch the checkpoint again")
    require_size(path, most)
    values = read_json(path)
    if not isinstance(values, dict):
        what = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(values), "a number")
        raise BrokenInputError(f"{path} holds {what}, and an object is needed", "restore the file")
    return values


def read_versioned(
    path: Path, *versions: int, remedy: str, refusal: type[TfcliError] = BrokenInputError
) -> tuple[int, dict[str, Any]]:
    """A JSON object in one of these format versions: its version, and all else in it. `remedy` is for a file that is
    missing (UsageError) or damaged (BrokenInputError), `refusal` the error of another version."""
    if not path.exists():
        raise UsageError(f"There is no file {path}", remedy)
    values = read_json(path)
    if not isinstance(values, dict):
        raise BrokenInputError(f"{path} is damaged (it holds no JSON object)", remedy)
    if (version := values.pop("format_version", None)) not in versions:
        known = " or ".join(map(str, versions))
        problem = f"{path} has format version {shortened(repr(version))}, and this tfcli reads {known}"
        raise refusal(problem, "use the tfcli that wrote it, or make it again")
    return version, values


def validated(kind: Any, values: Any, path: Path, remedy: str) -> Any:
    """JSON values as this dataclass, to the letter; a BrokenInputError names `path` and the first that is wrong."""
    from pydantic import ValidationError

    try:
        return type_adapter(kind).validate_json(json.dumps(values, ensure_ascii=False).encode(), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where, given = ".".join(map(str, first["loc"])) or "its beginning", first["input"]
        shown = "" if isinstance(given, dict | list) else f": {shortened(repr(given))}"
        raise BrokenInputError(f"{path} is damaged at {where}{shown} ({first['msg']})", remedy) from error
    except (RecursionError, ValueError) as error:
        raise BrokenInputError(f"{path} is damaged (nested too deeply, or no number or text)", remedy) from error


@functools.cache  # building one takes longer than all else that is done with it
def type_adapter(kind: Any) -> Any:
    """What checks values against a dataclass and its hints (pydantic's)."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def require_writable(folder: Path) -> None:
    """Refuse, before any work is done, a folder that cannot be made or written to."""
    existing = next((above for above in (folder, *folder.parents) if above.exists()), folder)
    if not existing.is_dir():
        raise UsageError(f"{existing} is a file, not a folder", "choose another output folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        problem = f"The folder {existing} is not writable"
        raise UsageError(problem, "choose another output folder or change its permissions")


def names_path(source: str) -> bool:
    """Whether a source is on this machine's disk, and not standard input, built in, on the hub or behind a URL."""
    return source != "-" and not re.match(r"builtin:|hf:|[a-z][a-z0-9+.-]*://", source)


def cache_folder() -> Path:
    """Where prepared datasets and trained tokenizers live: ``TFCLI_CACHE``, else the XDG cache."""
    chosen = os.environ.get("TFCLI_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/tfcli"
    try:
        return Path(chosen).expanduser()
    except RuntimeError as error:
        problem = f"The cache is to be in {chosen!r}, and that home folder is not known"
        raise UsageError(problem, "set TFCLI_CACHE to a folder") from error


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
    if not _OPENS_FOLDERS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if _OPENS_FOLDERS else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> TfcliError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free the disk or choose another folder" if is_full else "choose another folder"
    return TfcliError(f"Cannot write {path}: {error.strerror or error}", remedy)
