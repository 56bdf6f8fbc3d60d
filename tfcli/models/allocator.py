"""The memory allocator: keeping freed memory in the process."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""What glibc's mallopt can set (its manual page)."""

_NEVER = -1  # as an unsigned size, the largest there is
_GROWTH = 64 << 20


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for what is allocated next. By default it gives every large tensor back to the
    system, and the next one is made of new pages, each zeroed at its first touch: up to a fifth of a training step on a
    CPU, and of a large batch of texts. Other systems are left as they are."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, _NEVER)
    mallopt(_TOP_PAD, _GROWTH)
