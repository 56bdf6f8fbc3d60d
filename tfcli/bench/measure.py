"""Benchmark measurement: sides in turns, percentiles and ratios of their times."""

import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from tfcli.bench.process import SideProcess
from tfcli.records.bench import Spread

_PAUSE = 0.02
"""Seconds between two sides' steps, in which the idle threads of the first fall asleep."""


def measure(
    sides: Sequence[SideProcess],
    rounds: int,
    *,
    warmup: int,
    tell: Callable[[str], None],
    unit: str = "round",
) -> tuple[list[list[float]], list[int]]:
    """Every side's seconds (`in_turns`), and the most bytes that its process held."""
    total = warmup + rounds
    times = in_turns(sides, rounds, warmup=warmup, done=lambda number: tell(f"{unit} {number} of {total}"))
    return times, [side.stop()["memory"] for side in sides]


def in_turns(
    sides: Sequence[SideProcess], rounds: int, *, warmup: int, done: Callable[[int], None] = lambda _: None
) -> list[list[float]]:
    """Every side's seconds of every round after the warm-up; in a round each does one step while the others idle.

    A machine that is slowed for a while then slows all sides alike.
    """
    seconds: list[list[float]] = [[] for _ in sides]
    for number in range(warmup + rounds):
        for taken, side in zip(seconds, sides, strict=True):
            time.sleep(_PAUSE)
            taken.append(side.step()["seconds"])
        done(number + 1)
    return [taken[warmup:] for taken in seconds]


def spread(values: Sequence[float]) -> Spread:
    """Percentiles, between two values along the line that joins them.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(p10=1.4, p50=3.0, p90=4.6)
    """
    p10, p50, p90 = (float(value) for value in np.percentile(values, [10, 50, 90]))
    return Spread(p10, p50, p90)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """How many times as long as ours theirs took: the `ratio` of the medians, then the 10th and 90th percentile of the
    ratio in each round. Nothing where both are the same side."""
    if theirs is ours:
        return {}
    rounds = spread([there / here for here, there in zip(ours, theirs, strict=True)])
    return {"ratio": median(theirs) / median(ours), "ratio_p10": rounds.p10, "ratio_p90": rounds.p90}
