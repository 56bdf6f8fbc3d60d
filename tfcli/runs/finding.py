"""Find the runs below a folder."""

from collections.abc import Iterator
from pathlib import Path

from tfcli.errors import UsageError
from tfcli.runs.directory import RunDirectory

DEEPEST = 3
"""Levels below the folder in which runs are looked for: runs/a, runs/group/a, runs/group/day/a."""


def find_runs(folder: Path) -> list[RunDirectory]:
    """The runs in `folder` and a few levels below it, by path; the folder itself, if it is one.

    Raises:
        UsageError: there is no such folder, or it cannot be read.
    """
    if not folder.is_dir():
        problem = f"{str(folder)!r} is a file" if folder.exists() else f"There is no folder {str(folder)!r}"
        raise UsageError(problem, "name the folder that your runs are in")
    try:
        list(folder.iterdir())
    except OSError as error:
        raise UsageError(
            f"Cannot read the folder {str(folder)!r}: {error.strerror}", "check its permissions"
        ) from error
    return sorted(_below(folder, DEEPEST), key=lambda run: run.path)


def _below(folder: Path, levels: int) -> Iterator[RunDirectory]:
    """A folder that cannot be read, or is no run and holds none, is passed over; runs are not searched for runs."""
    run = RunDirectory(folder)
    try:
        if run.holds_run():
            yield run
        elif levels:
            for inner in folder.iterdir():
                if inner.is_dir() and not inner.name.startswith("."):
                    yield from _below(inner, levels - 1)
    except OSError:
        return
