"""File locks: of one process at a time, released by the system when that ends, however it ends (by filelock).

Where Python has `fcntl`, a file or a folder is locked itself. Where it has not, as on Windows, where nobody could read
a locked file, it is a hidden file beside it (`.NAME.lock`).
"""

import os
import stat
import time
import warnings
from pathlib import Path

from tfcli.machine import of_unix

fcntl = of_unix("fcntl")
_ATTEMPTS = 3


class Lock:
    """A file or a folder that this process has locked, until `release`.

    Args:
        shared: with others that want no more than this, where the system has such locks. filelock has none of a file
            itself.

    Raises:
        BlockingIOError: another process holds it.
        FileNotFoundError: it is not there.
        OSError: the file system locks none, or may not be written to.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        path = Path(os.path.abspath(path))  # noqa: PTH100 (it may be ".", which has no name)
        is_folder = stat.S_ISDIR(path.stat().st_mode)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of systems that have no locks of their own
            from filelock import FileLock, Timeout, lock_descriptor

            if fcntl is None:
                self._beside = FileLock(path.with_name(f".{path.name}.lock"), timeout=0, thread_local=False)
        if fcntl is None:
            try:
                self._beside.acquire()
            except Timeout as error:
                raise BlockingIOError from error
            return
        self._descriptor = os.open(path, os.O_RDONLY if shared or is_folder else os.O_RDWR)
        try:
            if shared:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            elif not lock_descriptor(self._descriptor, blocking=False):
                raise BlockingIOError
        except BaseException:
            os.close(self._descriptor)
            raise

    def is_of(self, path: Path) -> bool:
        """Whether what is locked is at this path now.

        Raises:
            FileNotFoundError: nothing is.
        """
        there = path.stat()
        return fcntl is None or os.path.samestat(os.fstat(self._descriptor), there)

    def release(self) -> None:
        """Let go."""
        if fcntl is None:
            self._beside.release()
        else:
            os.close(self._descriptor)


def patient_lock(path: Path, *, shared: bool = False) -> Lock:
    """As `Lock`, at once or after the instants in which others ask `is_locked`."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return Lock(path, shared=shared)
        except BlockingIOError:
            time.sleep(0.02)
    return Lock(path, shared=shared)


def is_locked(path: Path, *, shared: bool = False) -> bool:
    """Whether another process holds a lock; with `shared`, one that it shares with nobody."""
    try:
        Lock(path, shared=shared).release()
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
