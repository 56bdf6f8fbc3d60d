"""The machine: processor threads, memory, and processes that tfcli starts.

Threads that wait for each other go at the pace of the slowest, so there is one a free core.
"""

import atexit
import ctypes
import hashlib
import importlib
import os
import platform
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Any

__all__ = ["DEVNULL", "LAUNCH", "PIPE", "Popen", "TimeoutExpired", "child", "temporary_folder"]

LAUNCH = "TFCLI_LAUNCH"  # the variable that names a folder between the workers of a training and what started them
_ASKED = 0.04  # seconds for which cores are asked for, to see how many are free: a few turns of a system's scheduler
_TIMES = 4
_ROUNDING = 0.25  # of a core: what is missing from a free one, for the system has something to do now and then
_BLOCK = bytes(1 << 20)
_WAITING = "OMP_WAIT_POLICY"
_CONTAINER = Path("/sys/fs/cgroup")
_CPUINFO = Path("/proc/cpuinfo")
_STATUS = Path("/proc/self/status")
_PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when the thread that has started it ends


def of_unix(module: str) -> Any:
    """One of Python's modules that Windows lacks; there it is None."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def processor() -> str:
    """Its name."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def cpu_flags() -> set[str]:
    """What the first processor can do, in Linux' words: avx2, amx_bf16; nothing elsewhere."""
    return set((_cpuinfo("flags") or _cpuinfo("Features")).split())


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def free_cores() -> int:
    """Cores that nothing else uses, at least one: so much time do busy threads get together, one a core. Where that is
    not every core, it is asked again: another program may just have ended. The answer stays."""
    from concurrent.futures import ThreadPoolExecutor

    found = 1
    with ThreadPoolExecutor(cores()) as threads:
        for _ in range(_TIMES):
            shares = threads.map(_share_of_core, range(cores()))
            if (found := max(found, int(sum(shares) + _ROUNDING))) == cores():
                break
    return found


def _share_of_core(_: int) -> float:
    began, used = time.perf_counter(), time.thread_time()
    while time.perf_counter() - began < _ASKED:
        hashlib.sha256(_BLOCK)  # without Python's lock
    return (time.thread_time() - used) / (time.perf_counter() - began)


def quota() -> float | None:
    """The cores' worth of time that this container may have; None: it has no limit, or this is none."""
    limit, _, period = _value_in(_CONTAINER / "cpu.max").partition(" ")
    return int(limit) / int(period) if limit.isdecimal() else None


def memory() -> int:
    """Bytes of memory that all processes have together, on this machine or in this container."""
    from psutil import virtual_memory

    there = int(virtual_memory().total)
    return min(there, memory_limit() or there)


def memory_limit() -> int | None:
    """Bytes of memory that this container may have; None: it has no limit, or this is none."""
    return _container("memory.max") or None


def free_memory() -> int:
    """Bytes of memory that this process can still get, in the machine and in its container."""
    from psutil import virtual_memory

    free = int(virtual_memory().available)
    if limit := memory_limit():
        read_again = _container("memory.stat", "inactive_file ")  # files in memory, which give way
        free = min(free, max(0, limit - _container("memory.current") + read_again))
    return free


def process_memory() -> int:
    """Bytes of memory that this process holds now."""
    from psutil import Process

    return int(Process().memory_info().rss)


def peak_process_memory() -> int:
    """Bytes of memory that this process held at most, which psutil tells of Windows alone."""
    if peak := _value_in(_STATUS, "VmHWM:"):  # the figure of getrusage can begin with that of who started this program
        return int(peak.split()[0]) * 1024
    if (resource := of_unix("resource")) is None:
        from psutil import Process

        return int(Process().memory_info().peak_wset)
    largest: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if platform.system() == "Darwin" else largest * 1024


def environment_fixes_threads() -> bool:
    """Whether the environment says how many threads to use."""
    return any(name in os.environ for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))


def choose_threads(wanted: int, usual: int) -> int:
    """As many threads as are wanted; 0: as the environment says, else PyTorch's usual number, up to the free cores."""
    if wanted:
        return wanted
    if usual == 1 or environment_fixes_threads():
        return usual
    return min(usual, free_cores())


def busy_cores() -> int:
    """Cores that other programs were found to use; 0 where nobody has asked."""
    return cores() - free_cores() if free_cores.cache_info().currsize else 0


def wait_asleep_if_busy(threads: int) -> None:
    """Where so many threads are more than there are free cores, let those that wait leave the cores: one that spins
    holds up whom it waits for. Only before PyTorch is loaded, and where the environment does not say otherwise."""
    if threads > 1 and "torch" not in sys.modules and _WAITING not in os.environ and threads > free_cores():
        os.environ[_WAITING] = "passive"


def _cpuinfo(name: str) -> str:
    return _value_in(_CPUINFO, name).partition(":")[2].strip()


def _container(file: str, key: str = "") -> int:
    """A number that the container's system tells, in the line of that key; 0 where there is none."""
    value = _value_in(_CONTAINER / file, key)
    return int(value) if value.isdecimal() else 0


def _value_in(file: Path, key: str = "") -> str:
    """What follows `key` in the first line of a file that begins with it; "" where there is none."""
    lines = file.read_text().splitlines() if file.is_file() else []
    return next((line.removeprefix(key).strip() for line in lines if line.startswith(key)), "")


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module as a program, with this Python, as long as this process lives."""
    # -P: the working folder is out of the module path, and a `torch.py` that lies there a file like any other.
    return [sys.executable, "-P", "-m", __name__, str(os.getpid()), module, *arguments]


@contextmanager
def child(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None, **pipes: Any
) -> Iterator["Popen[str]"]:
    """Run a module as a program, in a session of its own: Ctrl-C is for this process alone. What ends the block, or the
    thread that entered it, ends the child, and what it has started unless it has come to a good end itself. `pipes` are
    its stdin, stdout and stderr; without one, it has nothing to read, and writes where this process does."""
    process = Popen(
        python_command(module, *arguments),
        **{"stdin": DEVNULL, **pipes},
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
