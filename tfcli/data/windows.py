"""Causal batches: windows cut from the stream of tokens, in a new order every epoch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.documents import DocumentPlan
from tfcli.data.draws import ORDER, generator
from tfcli.data.spans import Plan, Spans
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

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch."""
        return self.batch_size * self.length

    def training(self, start: int) -> Iterator[tuple[int, Spans]]:
        """The number of each batch and its windows, from batch `start` on, without end."""
        epoch, first = divmod(start, self.batches_per_epoch)
        while True:
            for index, starts in enumerate(self.epoch(epoch)[first:], start=first):
                yield epoch * self.batches_per_epoch + index, self._spans(starts, self.length)
            epoch, first = epoch + 1, 0

    def whole(self) -> Iterator[Spans]:
        """Every position once, in order. A rest that is shorter than a window comes last, alone."""
        full, rest = divmod(self.positions, self.length)
        starts = self.length * np.arange(full)
        for first in range(0, full, self.batch_size):
            yield self._spans(starts[first : first + self.batch_size], self.length)
        if rest:
            yield self._spans(np.array([full * self.length]), rest)

    def _spans(self, starts: NDArray[np.int64], length: int) -> Spans:
        return Spans(starts, np.full(len(starts), length))


class CausalBatches:
    """Batches for `clm`: position t predicts the token after it.

    The windows lie side by side, and the label of a window's last input is the token after the window, so no token is
    an input or a label twice in an epoch.

    Args:
        documents: begin windows where documents begin, instead of anywhere in the stream.
    """

    def __init__(
        self,
        view: TokenStreamView,
        roles: TokenRoles,
        *,
        batch_size: int,
        context: int,
        seed: int,
        documents: bool = False,
    ) -> None:
        self._view, self._pad = view, roles.pad
        # A document's <s> follows </s> always: predicting it would only flatter the loss.
        self._never_news = roles.bos if roles.bos != roles.eos else None
        self._plan: Plan = (
            DocumentPlan(view.offsets, 1, context=context, batch_size=batch_size, seed=seed)
            if documents
            else WindowPlan(len(view) - 1, context, batch_size, seed)
        )

    @property
    def batches_per_epoch(self) -> int:
        """Training batches of one pass over the part."""
        return self._plan.batches_per_epoch

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch, on average."""
        return self._plan.tokens_per_batch

    def training(self, start: int = 0) -> Iterator[Batch]:
        """Full batches without end, from number `start` on."""
        for _, spans in self._plan.training(start):
            yield self._batch(spans)

    def whole(self) -> Iterator[Batch]:
        """Every token but the begin tokens as a label exactly once, always in the same order."""
        for spans in self._plan.whole():
            yield self._batch(spans)

    def _batch(self, spans: Spans) -> Batch:
        tokens = self._view.padded(spans.starts, spans.lengths + 1, self._pad)
        present = spans.present()
        # Padding stands at the end, where the causal mask hides it from every real token.
        inputs = np.where(present, tokens[:, :-1], self._pad)
        scored = present if self._never_news is None else present & (tokens[:, 1:] != self._never_news)
        return Batch(inputs, np.where(scored, tokens[:, 1:], IGNORED), padding=spans.padding)
