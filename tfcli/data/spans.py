"""Stretches of the stream of tokens."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
