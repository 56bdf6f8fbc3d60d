"""File lock of a run: one process trains into it at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tfcli.errors import TfcliError, UsageError
from tfcli.locks import is_locked, patient_lock
from tfcli.runs.directory import RunDirectory


@contextmanager
def held(run: RunDirectory) -> Iterator[None]:
    """Hold a run while training into it. The system lets go when the process ends, however it ends.

    What is locked is config.json, which is there from the first moment and never written again.

    Raises:
        UsageError: another process holds it.
        TfcliError: the run cannot be written to.
    """
    try:
        lock = patient_lock(run.config)
    except BlockingIOError:
        problem = f"Another process trains into {run.path}"
        raise UsageError(problem, "wait until it has ended, or choose another --out") from None
    except OSError as error:
        raise TfcliError(f"Cannot write {run.config}: {error.strerror}", "check its permissions") from error
    try:
        yield
    finally:
        lock.release()


def is_held(run: RunDirectory) -> bool:
    """Whether a process trains into a run now. It is asked with a shared lock, let go of at once, which one who is
    about to train waits for."""
    return is_locked(run.config, shared=True)
