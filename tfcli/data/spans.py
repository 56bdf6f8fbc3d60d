"""Stretches of the stream of tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

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

    @property
    def padding(self) -> int:
        """Places that stay empty when the windows are laid under each other."""
        return int(self.lengths.max() * len(self.lengths) - self.lengths.sum())

    def present(self) -> NDArray[np.bool_]:
        """Where a row has a token.

        Shape: (B, longest of them)
        """
        return present(self.lengths)


class Plan(Protocol):
    """Which windows make which batch."""

    @property
    def batches_per_epoch(self) -> int:
        """Full batches of an epoch."""

    @property
    def tokens_per_batch(self) -> int:
        """Tokens of a training batch, on average."""

    def training(self, start: int) -> Iterator[tuple[int, Spans]]:
        """The number of each batch and its windows, from batch `start` on, without end."""

    def whole(self) -> Iterator[Spans]:
        """Every position of the part once, always in the same order."""
