"""Sliding windows (strided perplexity): each token is scored once, with as much before it as the stride leaves.

With a context of 4 and a stride of 2 the tokens `a b c d e f g h` are scored as

    window 1   <s> a b c      scores a b c d
    window 2       b c d e    scores       e f
    window 3           d e f g    scores       g h

so that every token but the first ones has at least context − stride tokens before it. A stride as long as the context
makes windows side by side.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.budget import BudgetPlan
from tfcli.data.causal import are_news
from tfcli.data.spans import present
from tfcli.data.views import TokenStreamView
from tfcli.evaluation.placed import Placed
from tfcli.records.roles import TokenRoles


@dataclass(frozen=True)
class SlidingWindows:
    """The windows of a whole text in batches, for `clm`.

    Args:
        context: tokens that a window reads at most.
        stride: 1 to `context`.
        documents: windows keep to one document each, as in training with `train.windows = "documents"`.
        tokens: places of a batch; one window at least.
    """

    view: TokenStreamView
    roles: TokenRoles
    context: int
    stride: int
    documents: bool
    tokens: int

    def __iter__(self) -> Iterator[Placed]:
        starts, lengths, skipped = self._windows()
        budget = max(self.tokens, self.context)
        if not len(lengths):
            return
        plan = BudgetPlan(np.arange(len(lengths)), lengths[None], budget=budget, seed=0)
        for numbers in plan.whole():
            yield self._batch(starts[numbers], lengths[numbers], skipped[numbers])

    def _batch(self, starts: NDArray[np.int64], lengths: NDArray[np.int64], skipped: NDArray[np.int64]) -> Placed:
        tokens = self.view.padded(starts, lengths + 1, self.roles.pad)
        there = present(lengths)
        # Padding stands at the end, where the causal mask hides it from every real token.
        inputs = np.where(there, tokens[:, :-1], self.roles.pad)
        columns = np.arange(inputs.shape[1])
        scored = there & (columns >= skipped[:, None])
        scored &= are_news(tokens, self.roles)
        batch = Batch(inputs, np.where(scored, tokens[:, 1:], IGNORED), row_tokens=lengths)
        return Placed(batch, starts[:, None] + columns + 1)

    def _windows(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Where each window starts, the tokens it reads, and how many of them have been scored before.

        Shape: each (windows,)
        """
        firsts, ends = self.view.documents if self.documents else np.array([[0], [len(self.view)]])
        readable = ends - firsts - 1  # nothing follows the last token
        counts = (readable > 0) + np.maximum(0, -(-(readable - self.context) // self.stride))
        segment = np.repeat(np.arange(len(firsts)), counts)
        number = np.arange(len(segment)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = number * self.stride
        lengths = np.minimum(self.context, readable[segment] - starts)
        return firsts[segment] + starts, lengths, np.where(number > 0, self.context - self.stride, 0)
