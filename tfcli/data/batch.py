"""The batch: what one forward pass sees, collated from token ids, labels and padding."""

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
    `row_tokens` are the tokens that each row reads, of both sides; None: every place has one.

    Shape: input_ids, padding_mask (B, S); labels, decoder_input_ids (B, T), without decoder input T = S;
        row_tokens (B,)
    """

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    padding_mask: NDArray[np.bool_] | None = None
    decoder_input_ids: NDArray[np.int64] | None = None
    row_tokens: NDArray[np.int64] | None = None

    @property
    def places(self) -> int:
        """The places that a token may stand at, of both sides: what a forward pass computes, padding or not."""
        return self.input_ids.size + (0 if self.decoder_input_ids is None else self.decoder_input_ids.size)

    @property
    def tokens(self) -> int:
        """The number of tokens read, of both sides, without padding: what progress and speed are counted in."""
        return self.places if self.row_tokens is None else int(self.row_tokens.sum())

    @property
    def padding(self) -> int:
        """Places without a token, of both sides."""
        return self.places - self.tokens

    @property
    def target_tokens(self) -> int:
        """The number of positions that are scored."""
        return int(np.count_nonzero(self.labels != IGNORED))

    def rows(self, share: slice) -> "Batch":
        """Some of the rows, as wide as all of them: what one process of several computes."""
        return Batch(
            self.input_ids[share],
            self.labels[share],
            None if self.padding_mask is None else self.padding_mask[share],
            None if self.decoder_input_ids is None else self.decoder_input_ids[share],
            None if self.row_tokens is None else self.row_tokens[share],
        )
