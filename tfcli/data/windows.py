"""Causal batches: windows cut from the stream of tokens, in a new order every epoch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.draws import ORDER, generator
from tfcli.data.views import TokenStreamView
from tfcli.records.roles import TokenRoles


@dataclass(frozen=True)
class WindowPlan:
    """Which windows of a stream make which batch.

    Args:
        positions: places in the stream where a window may have a token; at least 1.
        context: tokens of a window; a shorter stream makes one shorter window.
    """

    positions: int
    context: int
    batch_size: int
    seed: int

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

    def training(self, start: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The number of each batch and where its windows start, from batch `start` on, without end."""
        epoch, first = divmod(start, self.batches_per_epoch)
        while True:
            for index, starts in enumerate(self.epoch(epoch)[first:], start=first):
                yield epoch * self.batches_per_epoch + index, starts
            epoch, first = epoch + 1, 0

    def whole(self) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Every position once, in order: where a batch's windows start, and their length.

        A rest that is shorter than a window comes last, alone.
        """
        full, rest = divmod(self.positions, self.length)
        starts = self.length * np.arange(full)
        for first in range(0, full, self.batch_size):
            yield starts[first : first + self.batch_size], self.length
        if rest:
            yield np.array([full * self.length]), rest


class CausalBatches:
    """Batches for `clm`: position t predicts the token after it.

    The stream is cut into windows of `context` inputs; the label of a window's last input is the first input
    of the next, so no token is an input or a label twice in an epoch.
    """

    def __init__(
        self, view: TokenStreamView, roles: TokenRoles, *, batch_size: int, context: int, seed: int
    ) -> None:
        self._view = view
        # A document's <s> follows </s> always: predicting it would only flatter the loss.
        self._never_news = roles.bos if roles.bos != roles.eos else None
        self._plan = WindowPlan(len(view) - 1, context, batch_size, seed)

    @property
    def batches_per_epoch(self) -> int:
        """Training batches of one pass over the part."""
        return self._plan.batches_per_epoch

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch."""
        return self._plan.batch_size * self._plan.length

    def training(self, start: int = 0) -> Iterator[Batch]:
        """Full batches without end, from number `start` on."""
        for _, starts in self._plan.training(start):
            yield self._batch(starts, self._plan.length)

    def whole(self) -> Iterator[Batch]:
        """Every token but the begin tokens as a label exactly once, in order."""
        for starts, length in self._plan.whole():
            yield self._batch(starts, length)

    def _batch(self, starts: NDArray[np.int64], length: int) -> Batch:
        tokens = self._view.windows(starts, length + 1)
        labels = np.ascontiguousarray(tokens[:, 1:])
        if self._never_news is not None:
            labels = np.where(labels == self._never_news, IGNORED, labels)
        return Batch(np.ascontiguousarray(tokens[:, :-1]), labels)
