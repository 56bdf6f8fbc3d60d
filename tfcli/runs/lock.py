"""One process trains into a run at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from tfcli.errors import TfcliError, UsageError
from tfcli.runs.directory import RunDirectory


@contextmanager
def held(run: RunDirectory) -> Iterator[None]:
    """Hold a run while training into it. The system lets go when the process ends, however it ends.

    What is locked is recipe.toml, the one file that is there from the first moment and never written again.

    Raises:
        UsageError: another process holds it.
        TfcliError: the run cannot be written to.
    """
    try:
        file = run.recipe.open("r+")
    except OSError as error:
        raise TfcliError(f"Cannot write {run.recipe}: {error.strerror}", "check its permissions") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"Another process trains into {run.path}", "wait until it has ended, or choose another --out"
            ) from error
        yield
