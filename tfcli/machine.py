"""The machine: its processor, the cores that are free, and its memory.

Threads that wait for each other go at the pace of the slowest, so that there is one a free core.
"""

import hashlib
import os
import platform
import sys
import threading
import time
from functools import cache
from pathlib import Path

from tfcli import windows

_ASKED = 0.04
"""Seconds for which cores are asked for, to see how many are free: a few turns of a system's scheduler."""

_TIMES = 4

_ROUNDING = 0.25
"""Of a core: what is missing from a free one, for the system has something to do now and then."""

_BLOCK = bytes(1 << 20)
_WAITING = "OMP_WAIT_POLICY"

_CONTAINER = Path("/sys/fs/cgroup")
_LINUX = Path("/proc/meminfo")
_CPUINFO = Path("/proc/cpuinfo")


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
    found = 0
    for _ in range(_TIMES):
        found = max(found, _free_now())
        if found == cores():
            break
    return max(1, found)


def _free_now() -> int:
    shares: list[float] = []

    def work() -> None:
        began, used = time.perf_counter(), time.thread_time()
        while time.perf_counter() - began < _ASKED:
            hashlib.sha256(_BLOCK)  # without Python's lock
        shares.append((time.thread_time() - used) / (time.perf_counter() - began))

    workers = [threading.Thread(target=work) for _ in range(cores())]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return int(sum(shares) + _ROUNDING)


def quota() -> float | None:
    """The cores' worth of time that this container may have; None: it has no limit, or this is none."""
    told = _CONTAINER / "cpu.max"
    limit, period = told.read_text().split() if told.is_file() else ("max", "")
    return None if limit == "max" else int(limit) / int(period)


def memory() -> int:
    """Bytes of memory that all processes have together, on this machine or in this container."""
    if not hasattr(os, "sysconf"):
        return windows.memory()[0]
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(there, memory_limit() or there)


def memory_limit() -> int | None:
    """Bytes of memory that this container may have; None: it has no limit, or this is none."""
    return _container("memory.max") or None


def free_memory() -> int:
    """Bytes of memory that this process can still get; all there are where the system does not say."""
    if not hasattr(os, "sysconf"):
        return windows.memory()[1]
    told = _LINUX.read_text() if _LINUX.is_file() else ""
    available = next((line for line in told.splitlines() if line.startswith("MemAvailable:")), None)
    free = memory() if available is None else int(available.split()[1]) * 1024
    if limit := memory_limit():
        read_again = _container("memory.stat", "inactive_file ")  # files in memory, which give way
        free = min(free, max(0, limit - _container("memory.current") + read_again))
    return free


def choose_threads(wanted: int, usual: int) -> int:
    """So many threads as are wanted; 0: as the environment says, else PyTorch's usual number, but no more than free
    cores."""
    return wanted or (usual if usual == 1 or _is_told() else min(usual, free_cores()))


def busy_cores() -> int:
    """Cores that other programs were found to use; 0 where nobody has asked."""
    return cores() - free_cores() if free_cores.cache_info().currsize else 0


def wait_asleep_if_busy(threads: int) -> None:
    """Where so many threads are more than there are free cores, let those that wait leave the cores: one that spins
    there holds up whom it waits for. Only before PyTorch is loaded, and where the environment does not say otherwise.
    """
    if threads > 1 and "torch" not in sys.modules and _WAITING not in os.environ and threads > free_cores():
        os.environ[_WAITING] = "passive"


def _is_told() -> bool:
    return any(name in os.environ for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))


def _cpuinfo(name: str) -> str:
    """The first line of that name."""
    lines = _CPUINFO.read_text().splitlines() if _CPUINFO.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _container(file: str, key: str = "") -> int:
    """A number that the container's system tells, in the line of that key; 0 where there is none."""
    told = _CONTAINER / file
    lines = told.read_text().splitlines() if told.is_file() else []
    value = next((line.removeprefix(key) for line in lines if line.startswith(key)), "")
    return int(value) if value.isdecimal() else 0
