"""Seconds of a computation on this machine's CPU."""

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

_SQUARE = 1024
_BUDGET = 0.25
"""Seconds that one measurement takes, roughly."""
_FEWEST, _MOST = 3, 50


def seconds_in_turns(calls: Sequence[Callable[[], object]]) -> list[float]:
    """The median time of each call, one after the other in rounds, so that a machine slowed for a while slows all; each
    is called once before."""
    for call in calls:
        call()
    taken: list[list[float]] = [[] for _ in calls]
    while len(taken[0]) < _FEWEST or (sum(map(sum, taken)) < _BUDGET * len(calls) and len(taken[0]) < _MOST):
        for times, call in zip(taken, calls, strict=True):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
    return [median(times) for times in taken]


def products_a_second() -> float:
    """Floating-point operations a second of a matrix product of 1024 × 1024 in float32, with PyTorch's threads."""
    left, right = torch.randn(_SQUARE, _SQUARE), torch.randn(_SQUARE, _SQUARE)
    [seconds] = seconds_in_turns([lambda: left @ right])
    return 2 * _SQUARE**3 / seconds
