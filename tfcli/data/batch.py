"""Batches: token ids with labels and masks; pools of equal length (bucketing), equal tokens a batch."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import UsageError

Ints = NDArray[np.int64]
IGNORED = -100  # the label of a position that is not scored, as in PyTorch's cross-entropy


@dataclass(frozen=True, eq=False)
class Batch:
    """A micro-batch of token ids.

    Labels are shifted already: ``labels[:, t]`` is what position t has to predict, `IGNORED` where nothing is
    scored. `padding_mask` is True where there is a token; None: there is no padding that a token could see.
    `row_tokens` are the tokens that each row reads, of both sides; None: every place has one. `document_starts` are the
    columns where the document of each token begins, which alone it sees; None: it sees all of its row. The first
    `prefix` of a decoder's row see each other both ways; None: each token sees those before it alone. Where an answer
    is sought, it lies among the `answerable` tokens, and the labels are the columns of its first and its last one.

    Shape: input_ids, padding_mask, document_starts, answerable (B, S); labels, decoder_input_ids (B, T), without
        decoder input T = S; labels of answers (B, 2); row_tokens, prefix (B,)"""

    input_ids: Ints
    labels: Ints
    padding_mask: NDArray[np.bool_] | None = None
    decoder_input_ids: Ints | None = None
    row_tokens: Ints | None = None
    document_starts: Ints | None = None
    prefix: Ints | None = None
    answerable: NDArray[np.bool_] | None = None

    @property
    def places(self) -> int:
        """The places that a token may stand at, of both sides: what a forward pass computes, padding or not."""
        return self.input_ids.size + (0 if self.decoder_input_ids is None else self.decoder_input_ids.size)

    @property
    def tokens(self) -> int:
        """The number of tokens read, of both sides, without padding: what progress and speed are counted in."""
        return self.places if self.row_tokens is None else int(self.row_tokens.sum())

    @property
    def padding(self) -> int:
        """Places without a token, of both sides."""
        return self.places - self.tokens

    @property
    def target_tokens(self) -> int:
        """The number of positions that are scored."""
        return int(np.count_nonzero(self.labels != IGNORED))

    def rows(self, share: slice) -> "Batch":
        """Some of the rows, as wide as all of them: what one process of several computes."""
        return Batch(**{name: array[share] for name, array in vars(self).items() if array is not None})


ORDER, MASKS, SAMPLES = range(3)
"""Streams of chance, with their keys: the order of an epoch (seed, ORDER, epoch), the masks of a batch (seed, MASKS,
batch number), a generated text (seed, SAMPLES, checksum of its prompt, number of the sample)."""


def generator(*key: int) -> np.random.Generator:
    """A counter-based generator (Philox; Salmon et al. 2011) for this key."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


class Plan(Protocol):
    """Which rows of a part share a batch, epoch by epoch."""

    batches_per_epoch: int
    tokens_per_batch: int

    def epoch(self, epoch: int, /) -> Sequence[Ints] | Ints:
        """The rows of each training batch."""

    def whole(self) -> Iterable[Ints]:
        """Every row once, in batches, always in the same order."""


class PlannedBatches:
    """Batches as a plan has them, in training without end; one recomputes them from the seed and their number. Tokens
    of a training batch are of both sides, on average."""

    left_out = 0  # sequences that are too long
    longest: int  # places of the longest row, of both sides

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.batches_per_epoch, self.tokens_per_batch = plan.batches_per_epoch, plan.tokens_per_batch

    def training(self, start: int = 0) -> Iterator[Batch]:
        """Batches without end, from number `start` on."""
        yield from (self._batch(rows) for _, rows in self._training_rows(start))

    def whole(self) -> Iterator[Batch]:
        """All of the part exactly once, always in the same order."""
        yield from map(self._batch, self._plan.whole())

    def _training_rows(self, start: int) -> Iterator[tuple[int, Ints]]:
        """The number of each batch, from `start` on, and the rows that the plan gives it."""
        begin, first = divmod(start, self.batches_per_epoch)
        for epoch in count(begin):
            for index, rows in enumerate(self._plan.epoch(epoch)[first:], start=first):
                yield epoch * self.batches_per_epoch + index, rows
            first = 0

    def _batch(self, rows: Ints) -> Batch:
        raise NotImplementedError


POOLS = 64  # the sequences, sorted by length, are cut into about so many pools at least, for little padding
POOL_BATCHES = 64
"""Which sequences share a batch is left to chance among so many batches: enough for little padding, few enough for
chance. Batches of tokens take fewer where the text is short."""


class BudgetPlan:
    """Batches of sequences of about the same length, whose padded size stays within a budget of places.

    Every sequence is in one batch of an epoch. Pools are cut so that each holds a number of full batches, whichever
    of its sequences share one; so all epochs have as many batches, and any of them is found without those before it.
    Of the places of a batch, padding included, a row has as many as the longest of each side together. A UsageError
    where one sequence alone is larger than the budget. Shape: numbers (N,), N > 0; lengths (sides, N), 1 or 2 sides."""

    def __init__(self, numbers: Ints, lengths: Ints, *, budget: int, seed: int) -> None:
        _require_room(lengths, budget)
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
        self._numbers, self._seed, self.batches_per_epoch = numbers, seed, len(self._cuts) + 1
        self.tokens_per_batch = round(float(lengths.sum(axis=0).mean()) * (len(numbers) / self.batches_per_epoch))

    def epoch(self, epoch: int) -> list[Ints]:
        """The sequences of each batch of an epoch. Shape: batches_per_epoch times (rows,)."""
        draw = generator(self._seed, ORDER, epoch)
        # Chance decides among sequences of the same lengths, and then among those of a pool.
        places = draw.permutation(len(self._numbers))
        places = places[np.argsort(self._rank[places], kind="stable")]
        for pool in np.split(places, self._pools):
            draw.shuffle(pool)
        batches = np.split(self._numbers[places], self._cuts)
        return [batches[index] for index in draw.permutation(len(batches))]

    def whole(self) -> list[Ints]:
        """Every sequence once, the shortest first."""
        return np.split(self._numbers[self._order], self._cuts)


def _require_room(lengths: Ints, budget: int) -> None:
    sizes = lengths.sum(axis=0)
    largest = int(sizes.argmax())
    if sizes[largest] > budget:
        sides = " and ".join(str(length) for length in lengths[:, largest])
        problem = f"train.batch_tokens = {budget} cannot hold the longest example of {sizes[largest]} tokens"
        problem += f" (sides of {sides})" if len(lengths) > 1 else ""
        raise UsageError(problem, f"raise train.batch_tokens to {sizes[largest]} or more, or lower train.context")


def _cut(lengths: Ints, budget: int) -> tuple[list[int], Ints]:
    """Where each pool but the first begins, and each batch but the first.

    >>> _cut(np.array([[1, 1, 1, 1, 2, 2, 4]]), 4)
    ([4, 6], array([4, 6]))

    Shape: lengths (sides, N), sorted"""
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


def _pool(lengths: Ints, batches: int, budget: int) -> tuple[int, int]:
    """Sequences of a pool that begins here, and those of a full batch of it. Any `rows` sequences of the pool fit into
    the budget, and all of them fill `batches` batches, but at the end of the data, or where the budget holds not even
    one row as wide as so many sequences together. Shape: lengths (sides, those left)."""
    most = budget // int(lengths[:, 0].sum())
    widths = np.maximum.accumulate(lengths[:, : batches * most], axis=1).sum(axis=0)
    rows = np.arange(1, most + 1)
    fits = rows * widths[np.minimum(batches * rows, len(widths)) - 1] <= budget
    best = int(np.flatnonzero(fits)[-1]) + 1 if fits.any() else 1
    return min(batches * best, int(np.searchsorted(widths, budget // best, side="right"))), best


class BucketPlan:
    """Batches of `batch_size` sequences, in a new composition and order every epoch; sorted by the first side, then by
    the second. Fewer sequences than a batch make one by repeating them."""

    def __init__(self, numbers: Ints, lengths: Ints, *, batch_size: int, seed: int) -> None:
        self._numbers, self._lengths, self._seed, self._batch_size = numbers, lengths, seed, batch_size
        self.batches_per_epoch = max(1, len(numbers) // batch_size)
        self.tokens_per_batch = round(float(lengths.sum(axis=0).mean()) * batch_size)

    def epoch(self, epoch: int) -> Ints:
        """The sequences of each batch of an epoch. What does not fill a batch is left out by chance, not by length.
        Shape: (batches_per_epoch, batch_size)."""
        draw = generator(self._seed, ORDER, epoch)
        places = np.resize(draw.permutation(len(self._numbers)), self.batches_per_epoch * self._batch_size)
        pool = np.arange(len(places)) // (POOL_BATCHES * self._batch_size)
        places = places[np.lexsort((*self._lengths[::-1, places], pool))]
        batches = self._numbers[places].reshape(self.batches_per_epoch, self._batch_size)
        return batches[draw.permutation(self.batches_per_epoch)]

    def whole(self) -> list[Ints]:
        """Every sequence once, the shortest first."""
        order = self._numbers[np.lexsort(self._lengths[::-1])]
        return np.split(order, range(self._batch_size, len(order), self._batch_size))


def evenly(count: int, share: float) -> Ints:
    """About that share of so many numbers, evenly spread; 0: all of them.

    >>> evenly(10, 0.3), evenly(4, 0), evenly(4, 0.01)
    (array([1, 5, 8]), array([0, 1, 2, 3]), array([2]))
    """
    chosen = max(1, round(count * share)) if 0 < share < 1 else count
    return (2 * np.arange(chosen) + 1) * count // (2 * chosen)


def plan_by_length(rows: Ints, lengths: Ints, *, batch_size: int, batch_tokens: int | None = None, seed: int) -> Plan:
    """Batches of at most `batch_tokens` places, refused by a UsageError where one sequence alone is larger; or, without
    it, of `batch_size` sequences. Shape: rows (N,); lengths (sides, N)."""
    if batch_tokens is None:
        return BucketPlan(rows, lengths, batch_size=batch_size, seed=seed)
    return BudgetPlan(rows, lengths, budget=batch_tokens, seed=seed)
