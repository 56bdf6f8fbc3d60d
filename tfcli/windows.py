"""Windows, where it lacks what Python has elsewhere: its own words (kernel32) for memory and the end of a process."""

import ctypes
import importlib
import os
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

_SYNCHRONIZE, _FOREVER = 0x00100000, 0xFFFFFFFF


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX."""

    _fields_ = (
        ("length", c_uint32),
        ("load", c_uint32),
        ("physical", c_uint64),
        ("available", c_uint64),
        ("others", c_uint64 * 5),
    )


class _MemoryCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS."""

    _fields_ = (
        ("length", c_uint32),
        ("page_faults", c_uint32),
        ("peak_working_set", c_size_t),
        ("others", c_size_t * 7),
    )


def of_unix(module: str) -> Any:
    """One of Python's modules that Windows lacks; there it is None."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def memory() -> tuple[int, int]:
    """Bytes of memory that this machine has, and those of them that are free."""
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    ctypes.CDLL("kernel32").GlobalMemoryStatusEx(ctypes.byref(status))
    return int(status.physical), int(status.available)


def most_held() -> int:
    """Bytes of memory that this process held at most."""
    counters = _MemoryCounters(length=ctypes.sizeof(_MemoryCounters))
    kernel = ctypes.CDLL("kernel32")
    kernel.GetCurrentProcess.restype = c_void_p
    kernel.K32GetProcessMemoryInfo.argtypes = (c_void_p, c_void_p, c_uint32)
    kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.length)
    return int(counters.peak_working_set)


def exit_after(process: int) -> None:
    """End this process when the one with this number does; at once if it has gone already."""
    kernel = ctypes.CDLL("kernel32")
    kernel.OpenProcess.restype = c_void_p
    kernel.WaitForSingleObject.argtypes = (c_void_p, c_uint32)
    if handle := kernel.OpenProcess(_SYNCHRONIZE, False, process):
        kernel.WaitForSingleObject(handle, _FOREVER)
    os._exit(1)
