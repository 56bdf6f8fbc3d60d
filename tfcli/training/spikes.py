"""Loss spikes: which reported losses stand out above the ones before."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import median
from typing import Any

RECENT = 20
"""Reports that a loss is held against; half as many must be there."""

_MOVES = 6.0
_LEAST_MOVE = 0.01
"""As a share of the median: losses that hardly move at all would make any step up a spike."""


class SpikeWatch:
    """Marks a loss above m + 6 · max(d, 0.01 · |m|), where m is the median of the recent reports' losses, and d the
    median of how far the loss moved from each of them to the next, up or down.

    Noise that is normal with standard deviation σ has d = 0.95 σ. Unlike the distances to m, d stays small while the
    loss falls; and medians are not moved by the spikes before.

    The reports alone decide, so that a resumed run, which reads them from its metrics, marks what the unbroken one
    does.
    """

    def __init__(self, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        """Begin behind what `metrics.jsonl` tells already."""
        self._recent: deque[float] = deque(maxlen=RECENT)
        for line in lines:
            loss = line.get("loss")
            if line.get("event") == "step" and isinstance(loss, int | float):
                self._recent.append(loss)

    def is_spike(self, loss: float) -> bool:
        """Hold the next loss against the recent ones, and take it in; one that is not finite is passed over."""
        if not math.isfinite(loss):
            return False
        recent = tuple(self._recent)
        self._recent.append(loss)
        if len(recent) < RECENT // 2:
            return False
        middle = median(recent)
        move = median(abs(after - before) for before, after in pairwise(recent))
        return loss > middle + _MOVES * max(move, _LEAST_MOVE * abs(middle))
