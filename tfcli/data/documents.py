"""Unpacked windows: they begin where documents begin, so that a model reads one document at a time."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tfcli.data.buckets import evenly, plan_by_length
from tfcli.data.draws import endless
from tfcli.data.spans import Spans
from tfcli.errors import UsageError


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
