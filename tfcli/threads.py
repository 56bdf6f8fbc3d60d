"""CPU threads: one a free core, for threads that wait for each other go at the pace of the slowest."""

import hashlib
import os
import sys
import threading
import time
from functools import cache

_ASKED = 0.04
"""Seconds for which cores are asked for, to see how many are free: a few turns of a system's scheduler."""

_ROUNDING = 0.25
"""Of a core: what is missing from a free one, for the system has something to do now and then."""

_BLOCK = bytes(1 << 16)
_WAITING = "OMP_WAIT_POLICY"


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def free_cores() -> int:
    """Cores that nothing else uses, at least one: so much time do busy threads get together, one a core. Asked once."""
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
    return max(1, int(sum(shares) + _ROUNDING))


def choose_threads(wanted: int = 0) -> int:
    """So many threads as are wanted; 0: as the environment says, else as PyTorch would, but no more than free cores."""
    import torch

    default = torch.get_num_threads()
    return wanted or (default if default == 1 or _is_told() else min(default, free_cores()))


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
