"""Counter-based random numbers: a pure function of a key, so that any batch can be made again without those before."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ORDER = 0
"""Stream of the order of an epoch: key (seed, ORDER, epoch)."""

MASKS = 1
"""Stream of the masks of a batch: key (seed, MASKS, batch number)."""

SAMPLES = 2
"""Stream of a generated text: key (seed, SAMPLES, checksum of its prompt, number of the sample)."""


def generator(*key: int) -> np.random.Generator:
    """A counter-based generator (Philox; Salmon et al. 2011) for this key."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


def endless(
    epoch: Callable[[int], Sequence[NDArray[Any]] | NDArray[Any]], batches_per_epoch: int, start: int
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Epoch after epoch, from batch number `start` on: the number of each batch, and its row of the epoch's plan."""
    number, first = divmod(start, batches_per_epoch)
    while True:
        for index, row in enumerate(epoch(number)[first:], start=first):
            yield number * batches_per_epoch + index, row
        number, first = number + 1, 0
