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
    scored. `padding_mask` is True where there is a token; None: nothing is padded.

    Shape: input_ids, padding_mask (B, S); labels, decoder_input_ids (B, T); without decoder input T = S
    """

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    padding_mask: NDArray[np.bool_] | None = None
    decoder_input_ids: NDArray[np.int64] | None = None

    @property
    def tokens(self) -> int:
        """The number of tokens read, of both sides, without padding: what progress and speed are counted in."""
        source = self.input_ids.size if self.padding_mask is None else int(np.count_nonzero(self.padding_mask))
        return source + (0 if self.decoder_input_ids is None else self.target_tokens)

    @property
    def target_tokens(self) -> int:
        """The number of positions that are scored."""
        return int(np.count_nonzero(self.labels != IGNORED))
