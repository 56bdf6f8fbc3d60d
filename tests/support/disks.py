"""Disks that are full, and what a process has left on them."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[None]:
    """A disk of its own at `folder`, as small as that; only root may mount one.

    Raises:
        PermissionError: it cannot be mounted here.
    """
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        raise PermissionError(errno.EPERM, "no disk can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def half_written(run: Path) -> list[Path]:
    """What should not be there any more."""
    return [path for path in run.rglob("*") if ".tmp" in path.name]
