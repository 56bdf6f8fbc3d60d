"""Batches that know where in the text their labels stand."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfcli.data.batch import Batch


@dataclass(frozen=True, eq=False)
class Placed:
    """A batch, and the place of each label: in the stream of tokens, or, of pairs, the number of its pair.

    Shape: places (B, T), or (B, 1)
    """

    batch: Batch
    places: NDArray[np.int64]
