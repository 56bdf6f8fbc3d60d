"""A positional encoding as a table."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PositionsRecord:
    """What an encoding says about positions: a vector for each, or a number for every distance and head.

    Vectors (sinusoidal, learned, rotary): `table[r, i]` is dimension i of position `first` + r, and `similarity[k]` the
    mean over n of r_n · r_{n+k} / |r_n||r_{n+k}|. Biases (alibi, t5): `table[r, h]` is what head h adds to the score of
    a key that stands k = `first` + r tokens before its query (after it where k < 0).

    Shape:
        table: (length, d_model) of vectors; (length, H) or, where k may be negative, (2 · length − 1, H) of biases
        similarity: (length,)
    """

    encoding: str
    base: float | None
    """L of the wavelengths. None: there are none."""
    length: int
    """Positions."""
    d_model: int | None
    """Dimensions of a vector. None: biases are no vectors."""
    table: NDArray[np.float32]
    similarity: NDArray[np.float32] | None
    """None for biases, which are a profile by distance themselves."""
    rows: Literal["position", "distance"] = "position"
    columns: Literal["dimension", "head"] = "dimension"
    first: int = 0
    """Number of the first row."""
    layout: Literal["interleaved", "halves"] | None = None
    """Which dimensions share a wavelength. None: none do. A rotary table is the same for both."""
    scaling: float = 1.0
    """What positions are divided by."""
    merge: Literal["add", "concat", "query_key"] | None = None
    """How a run joins its vectors to its tokens. None: they act on the scores, or there is no run."""
    side: Literal["source", "target"] | None = None
    """Whose table it is, where the two sides have their own."""
