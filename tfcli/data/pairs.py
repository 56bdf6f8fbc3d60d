"""Batches of pairs for `seq2seq`, by teacher forcing: the decoder reads the true target so far."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.buckets import BucketPlan
from tfcli.data.draws import endless
from tfcli.data.spans import present
from tfcli.data.views import PairsView
from tfcli.errors import UsageError
from tfcli.records.roles import TokenRoles


class PairBatches:
    """Batches for `seq2seq`: pairs of about the same length, padded on the right.

    ``decoder_input_ids`` are ``<s> ids``, ``labels`` are ``ids </s>``. Where two tokens begin a target, the second is
    predicted as well, as in BART's own training: ``</s> <s> ids`` and ``<s> ids </s>``. Pairs whose source
    (``ids </s>``) or decoder input has more than `context` tokens take no part, in training and in `whole`.

    Attributes:
        left_out: the number of pairs that are too long.
        order: the number in the part of every pair that `whole` yields, in its order.

    Raises:
        UsageError: every pair is too long.
    """

    def __init__(self, view: PairsView, roles: TokenRoles, *, batch_size: int, context: int, seed: int) -> None:
        self._view = view
        self._pad = roles.pad
        sources, targets = view.source.lengths, view.target.lengths - 1
        fitting = np.flatnonzero((sources <= context) & (targets <= context))
        if not len(fitting):
            shortest = int(np.maximum(sources, targets).min())
            raise UsageError(
                f"Every pair is longer than the context of {context} tokens (the shortest has {shortest})",
                "raise train.context and model.max_seq_len",
            )
        self._plan = BucketPlan(
            fitting, np.stack([targets[fitting], sources[fitting]]), batch_size=batch_size, seed=seed
        )
        self._mean_tokens = float((sources + targets)[fitting].mean())
        self.left_out = len(view) - len(fitting)
        self.order = self._plan.sorted()

    @property
    def batches_per_epoch(self) -> int:
        """Training batches of one pass over the part."""
        return self._plan.batches_per_epoch

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch, of both sides, on average."""
        return round(self._mean_tokens * self._plan.batch_size)

    def training(self, start: int = 0) -> Iterator[Batch]:
        """Full batches without end, from number `start` on."""
        for _, numbers in endless(self._plan.epoch, self.batches_per_epoch, start):
            yield self._batch(numbers)

    def whole(self) -> Iterator[Batch]:
        """Every pair that fits exactly once, in the order of `order`, the shortest first."""
        for first in range(0, len(self.order), self._plan.batch_size):
            yield self._batch(self.order[first : first + self._plan.batch_size])

    def _batch(self, numbers: NDArray[np.int64]) -> Batch:
        sources = self._view.source.padded(numbers, self._pad)
        targets = self._view.target.padded(numbers, self._pad)
        scored = present(self._view.target.lengths[numbers] - 1)
        lengths = self._view.source.lengths[numbers]
        return Batch(
            input_ids=sources,
            labels=np.where(scored, targets[:, 1:], IGNORED),
            padding_mask=present(lengths),
            decoder_input_ids=np.where(scored, targets[:, :-1], self._pad),
            padding=sources.size - int(lengths.sum()),
        )
