"""What one forward pass sees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IGNORED = -100
"""The label of a position that is not scored, as in PyTorch's cross-entropy."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A micro-batch of token ids.

    Labels are shifted already: ``labels[:, t]`` is what position t has to predict, `IGNORED` where nothing is
    scored. `padding_mask` is True where there is a token; None: there is no padding that a token could see.

    Shape: input_ids, padding_mask (B, S); labels, decoder_input_ids (B, T); without decoder input T = S
    """

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    padding_mask: NDArray[np.bool_] | None = None
    decoder_input_ids: NDArray[np.int64] | None = None
    padding: int = 0
    """Places of `input_ids` without a token."""

    @property
    def tokens(self) -> int:
        """The number of tokens read, of both sides, without padding: what progress and speed are counted in."""
        target = 0 if self.decoder_input_ids is None else self.target_tokens
        return self.input_ids.size - self.padding + target

    @property
    def target_tokens(self) -> int:
        """The number of positions that are scored."""
        return int(np.count_nonzero(self.labels != IGNORED))
