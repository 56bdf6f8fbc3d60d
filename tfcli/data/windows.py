"""Packing: windows of tokens cut from a stream of documents."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import ORDER, endless, generator
from tfcli.data.bucketing import evenly, plan_by_length
from tfcli.data.dataset import TokenStreamView
from tfcli.errors import UsageError
from tfcli.records.roles import TokenRoles


def present(lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where sequences of these lengths have tokens, once padded to the longest.

    Shape: lengths (B,); result (B, longest of them)
    """
    places: NDArray[np.bool_] = np.arange(lengths.max()) < lengths[:, None]
    return places


@dataclass(frozen=True, eq=False)
class Spans:
    """The windows of one batch: where each starts in the stream, and how many tokens it has.

    Shape: starts, lengths (B,)
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def present(self) -> NDArray[np.bool_]:
        """Where a row has a token.

        Shape: (B, longest of them)
        """
        return present(self.lengths)


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


class DocumentPlan:
    """Which documents make which batch: those of about the same length.

    A document of more than `context` positions is cut into windows of that many, side by side.

    Args:
        documents: where each begins in the stream, and where it ends.
        label_offset: 1 where the token after a window's last is needed as well, for its label; else 0.
        batch_tokens: places of a batch, padding included, instead of `batch_size` windows; at least `context`.
        sample: tokens of the evenly spread windows that alone take part; 0: all.

    Raises:
        UsageError: no document has enough tokens for a window.

    Shape: documents (2, documents)
    """

    def __init__(
        self,
        documents: NDArray[np.int64],
        label_offset: int,
        *,
        context: int,
        batch_size: int,
        batch_tokens: int | None = None,
        seed: int,
        sample: int = 0,
    ) -> None:
        self._starts, self._lengths = document_windows(documents, label_offset, context)
        if not len(self._starts):
            raise UsageError(
                "No document has a token behind its first one", "give longer texts, or set train.windows = 'stream'"
            )
        numbers = evenly(len(self._starts), sample / int(self._lengths.sum()))
        self._plan = plan_by_length(
            numbers, self._lengths[None, numbers], batch_size=batch_size, batch_tokens=batch_tokens, seed=seed
        )

    @property
    def batches_per_epoch(self) -> int:
        """Batches of an epoch."""
        return self._plan.batches_per_epoch

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch, on average."""
        return round(float(self._lengths.mean()) * self._plan.mean_rows)

    def training(self, start: int) -> Iterator[tuple[int, Spans]]:
        """The number of each batch and its windows, from batch `start` on, without end."""
        for number, documents in endless(self._plan.epoch, self.batches_per_epoch, start):
            yield number, self._spans(documents)

    def whole(self) -> Iterator[Spans]:
        """Every window once, the shortest first."""
        for numbers in self._plan.whole():
            yield self._spans(numbers)

    def _spans(self, numbers: NDArray[np.int64]) -> Spans:
        return Spans(self._starts[numbers], self._lengths[numbers])


def document_windows(
    documents: NDArray[np.int64], label_offset: int, context: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and length of every window; a document of no positions has none.

    >>> document_windows(np.array([[0, 4], [4, 9]]), 1, 3)
    (array([0, 4, 7]), array([3, 3, 1]))
    """
    starts, ends = documents
    positions = ends - starts - label_offset
    pieces = -(-positions // context)
    document = np.repeat(np.arange(len(positions)), pieces)
    piece = np.arange(len(document)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return starts[document] + piece * context, np.minimum(context, positions[document] - piece * context)


class WindowBatches:
    """Batches of windows, side by side in the stream, so that no token is read twice in an epoch.

    Args:
        batch_tokens: places of a batch, padding included, instead of `batch_size` windows; at least `context`.
        documents: begin windows where documents begin, instead of anywhere in the stream.
        sample: tokens of an evenly spread part that alone `whole` is to yield; 0: all.
    """

    label_offset = 0
    """1 where the token after a window's last is needed as well, for its label."""

    def __init__(
        self,
        view: TokenStreamView,
        roles: TokenRoles,
        *,
        context: int,
        batch_size: int,
        batch_tokens: int | None = None,
        seed: int,
        documents: bool = False,
        sample: int = 0,
    ) -> None:
        self._view, self._roles, self._pad, self._seed = view, roles, roles.pad, seed
        self._plan: DocumentPlan | WindowPlan
        if documents:
            sizes: dict[str, Any] = {"context": context, "batch_size": batch_size, "batch_tokens": batch_tokens}
            self._plan = DocumentPlan(view.documents, self.label_offset, seed=seed, sample=sample, **sizes)
        else:
            rows = batch_size if batch_tokens is None else batch_tokens // context
            self._plan = WindowPlan(len(view) - self.label_offset, context, rows, seed, sample)

    def spans(self) -> Iterator[Spans]:
        """The windows of each batch of `whole`, in its order."""
        return self._plan.whole()

    @property
    def batches_per_epoch(self) -> int:
        """Training batches of one pass over the part."""
        return self._plan.batches_per_epoch

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch, on average."""
        return self._plan.tokens_per_batch
