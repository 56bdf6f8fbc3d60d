"""Batches that know where in the text their labels stand."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import Batch
from tfcli.data.masking import MaskedBatches
from tfcli.data.pairs import PairBatches


@dataclass(frozen=True, eq=False)
class Placed:
    """A batch, and the place of each label: in the stream of tokens, or, of pairs, the number of its pair.

    Shape: places (B, T), or (B, 1)
    """

    batch: Batch
    places: NDArray[np.int64]


def placed_masks(batches: MaskedBatches) -> Iterator[Placed]:
    """The whole part, masked."""
    for batch, spans in zip(batches.whole(), batches.spans(), strict=True):
        yield Placed(batch, spans.starts[:, None] + np.arange(batch.labels.shape[1]))


def placed_pairs(batches: PairBatches) -> Iterator[Placed]:
    """All pairs that fit."""
    first = 0
    for batch in batches.whole():
        rows = len(batch.labels)
        yield Placed(batch, batches.order[first : first + rows, None])
        first += rows
