"""Sequence-to-sequence batches by teacher forcing: the decoder reads the true target so far."""

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch, PlannedBatches
from tfcli.data.bucketing import evenly, plan_by_length
from tfcli.data.dataset import PairsView
from tfcli.data.windows import present
from tfcli.errors import UsageError
from tfcli.records.roles import TokenRoles


class PairBatches(PlannedBatches):
    """Batches for `seq2seq`: pairs of about the same length, padded on the right.

    ``decoder_input_ids`` are ``<s> ids``, ``labels`` are ``ids </s>``. Where two tokens begin a target, the second is
    predicted as well, as in BART's own training: ``</s> <s> ids`` and ``<s> ids </s>``. Pairs whose source
    (``ids </s>``) or decoder input has more than `context` tokens take no part, in training and in `whole`.

    Args:
        batch_tokens: places of a batch, of both sides and padding included, instead of `batch_size` pairs.
        sample: tokens of the evenly spread pairs that alone take part; 0: all.

    Attributes:
        left_out: the number of pairs that are too long.
        longest: tokens of the longest pair, of both sides.
        order: the number in the part of every pair that `whole` yields, in its order.

    Raises:
        UsageError: every pair is too long, or one alone is larger than `batch_tokens`.
    """

    def __init__(
        self,
        view: PairsView,
        roles: TokenRoles,
        *,
        batch_size: int,
        batch_tokens: int | None = None,
        context: int,
        seed: int,
        sample: int = 0,
    ) -> None:
        self._view = view
        self._pad = roles.pad
        sources, targets = view.source.lengths, view.target.lengths - 1
        fitting = np.flatnonzero((sources <= context) & (targets <= context))
        if not len(fitting):
            shortest = int(np.maximum(sources, targets).min())
            problem = f"Every pair is longer than the context of {context} tokens (the shortest has {shortest})"
            raise UsageError(problem, "raise train.context and model.max_seq_len")
        self.left_out = len(view) - len(fitting)
        fitting = fitting[evenly(len(fitting), sample / int((sources + targets)[fitting].sum()))]
        lengths = np.stack([targets[fitting], sources[fitting]])
        self.longest = int(lengths.sum(axis=0).max())
        plan = plan_by_length(fitting, lengths, batch_size=batch_size, batch_tokens=batch_tokens, seed=seed)
        super().__init__(plan)
        self.order = np.concatenate([*plan.whole()])

    def _batch(self, numbers: NDArray[np.int64]) -> Batch:
        sources = self._view.source.padded(numbers, self._pad)
        targets = self._view.target.padded(numbers, self._pad)
        source_lengths, target_lengths = self._view.source.lengths[numbers], self._view.target.lengths[numbers] - 1
        scored = present(target_lengths)
        return Batch(
            input_ids=sources,
            labels=np.where(scored, targets[:, 1:], IGNORED),
            padding_mask=present(source_lengths),
            decoder_input_ids=np.where(scored, targets[:, :-1], self._pad),
            row_tokens=source_lengths + target_lengths,
        )
