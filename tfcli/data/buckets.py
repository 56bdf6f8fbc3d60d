"""Length bucketing: sequences of about the same length share a batch, so that little is padded."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.budget import BudgetPlan
from tfcli.data.draws import ORDER, generator

POOL_BATCHES = 64
"""Sequences are sorted by length among so many batches: enough for little padding, few enough for chance."""


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """Batches of sequences of about the same length, in a new composition and order every epoch.

    Args:
        numbers: the sequences that take part; at least one.
        lengths: of each side of each; batches are sorted by the first side, then by the second.

    Shape: numbers (N,); lengths (sides, N)
    """

    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    batch_size: int
    seed: int

    @property
    def batches_per_epoch(self) -> int:
        """Full batches of an epoch; fewer sequences than a batch make one by repeating them."""
        return max(1, len(self.numbers) // self.batch_size)

    @property
    def mean_rows(self) -> float:
        """Sequences of a batch."""
        return self.batch_size

    def epoch(self, epoch: int) -> NDArray[np.int64]:
        """The sequences of each batch of an epoch.

        What does not fill a batch is left out by chance, not by length.

        Shape: (batches_per_epoch, batch_size)
        """
        draw = generator(self.seed, ORDER, epoch)
        places = np.resize(draw.permutation(len(self.numbers)), self.batches_per_epoch * self.batch_size)
        pool = np.arange(len(places)) // (POOL_BATCHES * self.batch_size)
        places = places[np.lexsort((*self.lengths[::-1, places], pool))]
        batches = self.numbers[places].reshape(self.batches_per_epoch, self.batch_size)
        return batches[draw.permutation(self.batches_per_epoch)]

    def whole(self) -> Iterator[NDArray[np.int64]]:
        """Every sequence once, the shortest first, in batches of `batch_size`; the last may have fewer."""
        order = self.numbers[np.lexsort(self.lengths[::-1])]
        for first in range(0, len(order), self.batch_size):
            yield order[first : first + self.batch_size]


LengthPlan = BucketPlan | BudgetPlan


def evenly(count: int, share: float) -> NDArray[np.int64]:
    """About that share of so many numbers, evenly spread; 0: all of them.

    >>> evenly(10, 0.3), evenly(4, 0), evenly(4, 0.01)
    (array([1, 5, 8]), array([0, 1, 2, 3]), array([2]))
    """
    chosen = max(1, round(count * share)) if 0 < share < 1 else count
    return (2 * np.arange(chosen) + 1) * count // (2 * chosen)


def plan_by_length(
    numbers: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    batch_size: int,
    batch_tokens: int | None,
    seed: int,
) -> LengthPlan:
    """Batches of at most `batch_tokens` places, or, without it, of `batch_size` sequences.

    Raises:
        UsageError: one sequence alone is larger than `batch_tokens`.

    Shape: numbers (N,); lengths (sides, N)
    """
    if batch_tokens is None:
        return BucketPlan(numbers, lengths, batch_size, seed)
    return BudgetPlan(numbers, lengths, budget=batch_tokens, seed=seed)
