"""Token-budget batches by length bucketing: many short sequences, or few long ones."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tfcli.data.draws import ORDER, generator
from tfcli.errors import UsageError

POOLS = 64
"""The sequences, sorted by length, are cut into about so many pools at least, for little padding."""

POOL_BATCHES = 64
"""Which sequences share a batch is left to chance among so many batches at most: more would only add padding."""


class BudgetPlan:
    """Batches of sequences of about the same length whose padded size stays within a budget.

    Every sequence is in one batch of an epoch. Pools are cut so that each holds a number of full batches, whichever
    of its sequences share one; so all epochs have as many batches, and any of them is found without those before it.

    Args:
        numbers: the sequences that take part; at least one.
        lengths: of each side of each sequence; a batch has as many places a row as the longest of each side together.
        budget: places of a batch, padding included.

    Raises:
        UsageError: one sequence alone is larger than the budget.

    Shape: numbers (N,); lengths (sides, N), of one or two sides
    """

    def __init__(self, numbers: NDArray[np.int64], lengths: NDArray[np.int64], *, budget: int, seed: int) -> None:
        _require_room(lengths, budget)
        self._numbers, self._seed = numbers, seed
        # Sorted by the longer side, a neighbour's sides are both about as long; of equal ones, first those with the
        # shorter source and then those with the shorter target, or the other way round: whichever continues the last.
        longer, difference = lengths.max(axis=0), lengths[0] - lengths[-1]
        keys = (np.where(longer % 2, difference, -difference), longer)
        self._order = np.lexsort(keys)
        # The keys determine both lengths, so that sequences of one rank may stand in for each other.
        changes = np.any([np.diff(key[self._order]) != 0 for key in keys], axis=0)
        self._rank = np.empty(len(numbers), dtype=np.int64)
        self._rank[self._order] = np.concatenate([[0], np.cumsum(changes)])
        self._pools, self._cuts = _cut(lengths[:, self._order], budget)

    @property
    def batches_per_epoch(self) -> int:
        """Batches of every epoch."""
        return len(self._cuts) + 1

    @property
    def mean_rows(self) -> float:
        """Sequences of a batch, on average."""
        return len(self._numbers) / self.batches_per_epoch

    def epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        """The sequences of each batch of an epoch.

        Shape: batches_per_epoch times (rows,)
        """
        draw = generator(self._seed, ORDER, epoch)
        # Chance decides among sequences of the same lengths, and then among those of a pool.
        places = draw.permutation(len(self._numbers))
        places = places[np.argsort(self._rank[places], kind="stable")]
        for pool in np.split(places, self._pools):
            draw.shuffle(pool)
        batches = np.split(self._numbers[places], self._cuts)
        return [batches[index] for index in draw.permutation(len(batches))]

    def whole(self) -> Iterator[NDArray[np.int64]]:
        """Every sequence once, the shortest first, in batches within the budget."""
        yield from np.split(self._numbers[self._order], self._cuts)


def _require_room(lengths: NDArray[np.int64], budget: int) -> None:
    sizes = lengths.sum(axis=0)
    largest = int(sizes.argmax())
    if sizes[largest] > budget:
        sides = " and ".join(str(length) for length in lengths[:, largest])
        raise UsageError(
            f"train.batch_tokens = {budget} cannot hold the longest example of {sizes[largest]} tokens"
            + (f" (sides of {sides})" if len(lengths) > 1 else ""),
            f"raise train.batch_tokens to {sizes[largest]} or more, or lower train.context",
        )


def _cut(lengths: NDArray[np.int64], budget: int) -> tuple[list[int], NDArray[np.int64]]:
    """Where each pool but the first begins, and each batch but the first.

    >>> _cut(np.array([[1, 1, 1, 1, 2, 2, 4]]), 4)
    ([4, 6], array([4, 6]))

    Shape: lengths (sides, N), sorted
    """
    count = lengths.shape[1]
    batches = min(max(1, round(int(lengths.sum()) / budget / POOLS)), POOL_BATCHES)
    begin, pools, cuts = 0, [], []
    while begin < count:
        size, rows = _pool(lengths[:, begin:], batches, budget)
        parts = -(-size // rows)
        cuts.append(begin + size * np.arange(1, parts + 1) // parts)
        begin += size
        pools.append(begin)
    return pools[:-1], np.concatenate(cuts)[:-1]


def _pool(lengths: NDArray[np.int64], batches: int, budget: int) -> tuple[int, int]:
    """Sequences of a pool that begins here, and those of a full batch of it.

    Any `rows` sequences of the pool fit into the budget, and all of them fill `batches` batches, but at the end of the
    data, or where the budget holds not even one row as wide as so many sequences together.

    Shape: lengths (sides, those left)
    """
    most = budget // int(lengths[:, 0].sum())
    widths = np.maximum.accumulate(lengths[:, : batches * most], axis=1).sum(axis=0)
    rows = np.arange(1, most + 1)
    fits = rows * widths[np.minimum(batches * rows, len(widths)) - 1] <= budget
    best = int(np.flatnonzero(fits)[-1]) + 1 if fits.any() else 1
    return min(batches * best, int(np.searchsorted(widths, budget // best, side="right"))), best
