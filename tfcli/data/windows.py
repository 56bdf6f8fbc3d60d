"""Packing: documents run on as one stream, and windows are cut wherever they fall, in a new order every epoch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.buckets import evenly
from tfcli.data.draws import ORDER, endless, generator
from tfcli.data.spans import Spans


@dataclass(frozen=True)
class WindowPlan:
    """Which windows of a stream make which batch.

    Args:
        positions: places in the stream where a window may have a token; at least 1.
        context: tokens of a window; a shorter stream makes one shorter window.
        sample: tokens of an evenly spread part that alone `whole` is to yield; 0: all.
    """

    positions: int
    context: int
    batch_size: int
    seed: int
    sample: int = 0

    @property
    def length(self) -> int:
        """Tokens of a window."""
        return min(self.context, self.positions)

    @property
    def windows(self) -> int:
        """Windows of an epoch: as many as fit after the largest phase, so that all epochs have as many."""
        return max(1, (self.positions - self.length + 1) // self.length)

    @property
    def batches_per_epoch(self) -> int:
        """Full batches of an epoch; a part with fewer windows than a batch makes one by repeating them."""
        return max(1, self.windows // self.batch_size)

    def epoch(self, number: int) -> NDArray[np.int64]:
        """Where the windows of an epoch start: side by side from a random phase on, shuffled.

        Shape: (batches_per_epoch, batch_size)
        """
        draw = generator(self.seed, ORDER, number)
        phases = min(self.length, self.positions - self.windows * self.length + 1)
        starts = draw.integers(phases) + self.length * draw.permutation(self.windows)
        return np.resize(starts, (self.batches_per_epoch, self.batch_size))

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch."""
        return self.batch_size * self.length

    def training(self, start: int) -> Iterator[tuple[int, Spans]]:
        """The number of each batch and its windows, from batch `start` on, without end."""
        for number, starts in endless(self.epoch, self.batches_per_epoch, start):
            yield number, self._spans(starts, self.length)

    def whole(self) -> Iterator[Spans]:
        """Every position once, in order. A rest that is shorter than a window comes last, alone; a sample lacks it."""
        full, rest = divmod(self.positions, self.length)
        share = self.sample / self.positions
        starts = self.length * evenly(full, share)
        for first in range(0, len(starts), self.batch_size):
            yield self._spans(starts[first : first + self.batch_size], self.length)
        if rest and not 0 < share < 1:
            yield self._spans(np.array([full * self.length]), rest)

    def _spans(self, starts: NDArray[np.int64], length: int) -> Spans:
        return Spans(starts, np.full(len(starts), length))
