"""Batches: what one forward pass sees, and the keyed random numbers that order them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

IGNORED = -100
"""The label of a position that is not scored, as in PyTorch's cross-entropy."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A micro-batch of token ids.

    Labels are shifted already: ``labels[:, t]`` is what position t has to predict, `IGNORED` where nothing is
    scored. `padding_mask` is True where there is a token; None: there is no padding that a token could see.
    `row_tokens` are the tokens that each row reads, of both sides; None: every place has one.

    Shape: input_ids, padding_mask (B, S); labels, decoder_input_ids (B, T), without decoder input T = S;
        row_tokens (B,)
    """

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    padding_mask: NDArray[np.bool_] | None = None
    decoder_input_ids: NDArray[np.int64] | None = None
    row_tokens: NDArray[np.int64] | None = None

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


ORDER = 0
"""Stream of the order of an epoch: key (seed, ORDER, epoch)."""

MASKS = 1
"""Stream of the masks of a batch: key (seed, MASKS, batch number)."""

SAMPLES = 2
"""Stream of a generated text: key (seed, SAMPLES, checksum of its prompt, number of the sample)."""


def generator(*key: int) -> np.random.Generator:
    """A counter-based generator (Philox; Salmon et al. 2011) for this key."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


class Plan(Protocol):
    """Which rows of a part share a batch, epoch by epoch."""

    @property
    def batches_per_epoch(self) -> int:
        """As many in every epoch."""

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch, on average."""

    def epoch(self, epoch: int, /) -> Sequence[NDArray[np.int64]] | NDArray[np.int64]:
        """The rows of each training batch."""

    def whole(self) -> Iterable[NDArray[np.int64]]:
        """Every row once, in batches, always in the same order."""


class PlannedBatches:
    """Batches as a plan has them, in training without end; one recomputes them from the seed and their number."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @property
    def batches_per_epoch(self) -> int:
        """Training batches of one pass over the part."""
        return self._plan.batches_per_epoch

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch, of both sides, on average."""
        return self._plan.tokens_per_batch

    def training(self, start: int = 0) -> Iterator[Batch]:
        """Batches without end, from number `start` on."""
        for _, rows in self._training_rows(start):
            yield self._batch(rows)

    def whole(self) -> Iterator[Batch]:
        """All of the part exactly once, always in the same order."""
        yield from map(self._batch, self._plan.whole())

    def _training_rows(self, start: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The number of each batch, from `start` on, and the rows that the plan gives it."""
        begin, first = divmod(start, self.batches_per_epoch)
        for epoch in count(begin):
            for index, rows in enumerate(self._plan.epoch(epoch)[first:], start=first):
                yield epoch * self.batches_per_epoch + index, rows
            first = 0

    def _batch(self, rows: NDArray[np.int64]) -> Batch:
        raise NotImplementedError
