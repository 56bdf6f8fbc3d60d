"""One process trains into a run at a time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tfcli.errors import TfcliError, UsageError
from tfcli.locks import Lock
from tfcli.runs.directory import RunDirectory

_ATTEMPTS = 3


@contextmanager
def held(run: RunDirectory) -> Iterator[None]:
    """Hold a run while training into it. The system lets go when the process ends, however it ends.

    What is locked is config.json, which is there from the first moment and never written again.

    Raises:
        UsageError: another process holds it.
        TfcliError: the run cannot be written to.
    """
    lock = _taken(run)
    if lock is None:
        raise UsageError(f"Another process trains into {run.path}", "wait until it has ended, or choose another --out")
    try:
        yield
    finally:
        lock.release()


def is_held(run: RunDirectory) -> bool:
    """Whether a process trains into a run now. It is asked with a shared lock, let go of at once, which one who is
    about to train waits for."""
    try:
        Lock(run.config, shared=True).release()
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _taken(run: RunDirectory) -> Lock | None:
    """The lock, if it could be had, at once or after the instant that `is_held` takes."""
    for attempt in range(_ATTEMPTS):
        try:
            return Lock(run.config)
        except BlockingIOError:
            if attempt + 1 < _ATTEMPTS:
                time.sleep(0.02)
        except OSError as error:
            raise TfcliError(f"Cannot write {run.config}: {error.strerror}", "check its permissions") from error
    return None
