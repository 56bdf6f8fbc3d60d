"""Pseudo-perplexity: each token is masked alone, and predicted from all the others.

Salazar et al. 2020, Masked language model scoring, equations 1 and 3. It costs a pass over a window for every token,
and so of a long text some windows are taken, evenly spread.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import TokenStreamView
from tfcli.data.masked_lm import MaskedBatches
from tfcli.evaluation.windows import Placed
from tfcli.records.roles import TokenRoles

MOST_TOKENS = 5000  # tokens that are masked, about: in a text with more, windows are left out between the others


@dataclass(frozen=True, eq=False)
class LoneMasks:
    """The windows whose tokens are masked one by one. Special tokens, and unknown ones, stay.

    Args:
        tokens: places of a batch; one window at least.

    Shape: starts, lengths (windows,)."""

    view: TokenStreamView
    roles: TokenRoles
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    tokens: int

    def __iter__(self) -> Iterator[Placed]:
        for start, length in zip(self.starts, self.lengths, strict=True):
            window = self.view.padded(start[None], length[None], 0)[0]
            hidden = np.flatnonzero(~np.isin(window, self.roles.ids()))
            rows = max(1, self.tokens // int(length))
            for first in range(0, len(hidden), rows):
                yield self._batch(window, int(start), hidden[first : first + rows])

    @property
    def tokens_read(self) -> int:
        """What all passes read, at most."""
        return int((self.lengths**2).sum())

    def _batch(self, window: NDArray[np.int64], start: int, hidden: NDArray[np.int64]) -> Placed:
        rows = np.arange(len(hidden))
        inputs = np.tile(window, (len(hidden), 1))
        labels = np.full_like(inputs, IGNORED)
        assert self.roles.mask is not None
        inputs[rows, hidden], labels[rows, hidden] = self.roles.mask, window[hidden]
        return Placed(Batch(inputs, labels), start + np.arange(len(window))[None])


def lone_masks(view: TokenStreamView, roles: TokenRoles, batches: MaskedBatches, tokens: int) -> LoneMasks:
    """The windows that `batches` are made of: all, or some for about `MOST_TOKENS` tokens."""
    spans = list(batches.spans())
    starts, lengths = (np.concatenate([getattr(one, name) for one in spans]) for name in ("starts", "lengths"))
    order = np.argsort(starts)
    wanted = min(len(order), -(-MOST_TOKENS * len(order) // int(lengths.sum())))
    chosen = order[(np.arange(wanted) * len(order)) // wanted]
    return LoneMasks(view, roles, starts[chosen], lengths[chosen], tokens)
