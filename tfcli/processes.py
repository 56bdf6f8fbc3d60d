"""Child processes and temporary folders: made in one way, and gone with whoever made them."""

import atexit
import ctypes
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import IO

__all__ = ["DEVNULL", "LAUNCH", "PIPE", "Popen", "TimeoutExpired", "child", "python_command", "temporary_folder"]

LAUNCH = "TFCLI_LAUNCH"
"""The environment variable that names a private folder between the workers of a training and what started them."""

_PR_SET_PDEATHSIG = 1
"""Of Linux: the signal that a process gets when the thread that has started it ends."""


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module as a program, with this Python, as long as this process lives.

    `-P` keeps the working folder out of the module path: a `torch.py` that lies there is a file like any other.
    """
    return [sys.executable, "-P", "-m", __name__, str(os.getpid()), module, *arguments]


@contextmanager
def child(
    module: str,
    *arguments: str,
    stdin: int | None = DEVNULL,
    stdout: int | None = None,
    stderr: int | IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator["Popen[str]"]:
    """Run a module as a program, in a session of its own: Ctrl-C is for this process alone. Whatever ends the block, or
    the thread that entered it, ends the child, and what it has started unless it has come to a good end itself.

    Args:
        environment: variables beside those of this process.
    """
    process = Popen(
        python_command(module, *arguments),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        encoding="utf-8",
        env={**os.environ, **(environment or {}), "PYTHONSAFEPATH": "1"},  # as -P, for what it starts
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # a session, in Windows' words
    )
    try:
        yield process
    finally:
        if process.poll() != 0:
            with suppress(ProcessLookupError):
                if hasattr(os, "killpg") and hasattr(signal, "SIGKILL"):
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()  # what it has started ends with it (`_end_with`)
        process.wait()
        for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
            with suppress(BrokenPipeError):
                stream.close()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that goes with the block, also where a signal comes while it is made or removed."""
    folder = Path(tempfile.gettempdir(), f"tfcli-{os.urandom(8).hex()}")
    remove = partial(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(remove)
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        try:
            remove()
        finally:
            remove()  # if a signal has cut it short
            atexit.unregister(remove)


def _end_with(parent: int) -> None:
    """Die when the process with this number does, also of a kill; at once if it has gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    else:  # by its number: on Windows the parent of a process is the launcher of a virtual environment
        threading.Thread(target=_exit_after, args=[parent], daemon=True).start()


def _exit_after(process: int) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        psutil.Process(process).wait()
    os._exit(1)


if __name__ == "__main__":
    _end_with(int(sys.argv[1]))
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
