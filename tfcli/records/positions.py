"""A positional encoding as a table."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PositionsRecord:
    """`table[n, i]` is dimension i of position n; `similarity[k]` the mean over n of r_n · r_{n+k} / |r_n||r_{n+k}|."""

    encoding: str
    base: float | None
    length: int
    d_model: int
    table: NDArray[np.float32]
    similarity: NDArray[np.float32]
