"""Which sequences share a batch: those of about the same length, so that little is padded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.draws import ORDER, generator

POOL_BATCHES = 64
"""Sequences are sorted by length among so many batches: enough for little padding, few enough for chance."""


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """Batches of sequences of about the same length, in a new composition and order every epoch.

    Args:
        numbers: the sequences that take part; at least one.
        keys: two lengths of each; batches are sorted by the first, then by the second.

    Shape: numbers (N,); keys (2, N)
    """

    numbers: NDArray[np.int64]
    keys: NDArray[np.int64]
    batch_size: int
    seed: int

    @property
    def batches_per_epoch(self) -> int:
        """Full batches of an epoch; fewer sequences than a batch make one by repeating them."""
        return max(1, len(self.numbers) // self.batch_size)

    def epoch(self, epoch: int) -> NDArray[np.int64]:
        """The sequences of each batch of an epoch.

        What does not fill a batch is left out by chance, not by length.

        Shape: (batches_per_epoch, batch_size)
        """
        draw = generator(self.seed, ORDER, epoch)
        places = np.resize(draw.permutation(len(self.numbers)), self.batches_per_epoch * self.batch_size)
        pool = np.arange(len(places)) // (POOL_BATCHES * self.batch_size)
        first, second = self.keys[:, places]
        places = places[np.lexsort((second, first, pool))]
        batches = self.numbers[places].reshape(self.batches_per_epoch, self.batch_size)
        return batches[draw.permutation(self.batches_per_epoch)]

    def sorted(self) -> NDArray[np.int64]:
        """All sequences, the shortest first.

        Shape: (N,)
        """
        first, second = self.keys
        return self.numbers[np.lexsort((second, first))]
