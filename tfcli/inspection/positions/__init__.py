"""Positional encodings: a table of each, what it should be, how it shifts, and the loss beyond the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIZE = 64
"""Positions and dimensions where nobody says so: a table that still fits into a terminal."""

HEADS = 8
"""Those of ALiBi, as in the paper's example (Press et al. 2022, section 3)."""


@dataclass(frozen=True)
class PositionsRecord:
    """What an encoding says about positions: a vector for each, or a number for every distance and head.

    Vectors (sinusoidal, learned, rotary): `table[r, i]` is dimension i of position `first` + r, and `similarity[k]` the
    mean over n of r_n · r_{n+k} / |r_n||r_{n+k}|. Biases (alibi, t5): `table[r, h]` is what head h adds to the score of
    a key that stands k = `first` + r tokens before its query, and after it where k < 0, of which there are length − 1.

    Args:
        base: L of the wavelengths; None: there are none.
        layout: which dimensions share a wavelength; None: none do. A rotary table is the same for both.
        scaling: what positions are divided by; where not all are, that of `stretching`, the kind of a run's rotary
            positions (`model.position_scaling_kind`).
        frequencies: angle by which each pair of dimensions turns from one position to the next; None: not rotary.
        merge: how a run joins its vectors to its tokens; None: they act on the scores, or there is no run.
        side: whose table it is, where the two sides have their own.
    """

    encoding: str
    base: float | None
    length: int
    d_model: int | None
    table: NDArray[np.float32]
    similarity: NDArray[np.float32] | None
    rows: Literal["position", "distance"] = "position"
    columns: Literal["dimension", "head"] = "dimension"
    first: int = 0
    layout: Literal["interleaved", "halves"] | None = None
    scaling: float = 1.0
    stretching: str = "linear"
    frequencies: NDArray[np.float64] | None = None
    merge: Literal["add", "concat", "query_key"] | None = None
    side: Literal["source", "target"] | None = None


@dataclass(frozen=True)
class Requirement:
    """One of the lecture's wishes for a positional encoding, whether it is met (None: it was not measured), the number
    that decides it, and what that number is, or how to measure it."""

    name: Literal["bounded", "unique", "beyond its length", "consistent distance", "in the data"]
    met: bool | None
    value: float | None
    measured: str


@dataclass(frozen=True)
class PositionRequirements:
    """All of them for one encoding (Bishop and Bishop 2024, section 12.1.9), whose numbers are a formula's, a run's, or
    untrained ones (`origin`), and how it joins the tokens."""

    encoding: str
    origin: str
    joins: str
    requirements: tuple[Requirement, ...]


Described = tuple[PositionsRecord, PositionRequirements]
"""An encoding's table, and what it should be."""


@dataclass(frozen=True)
class ShiftRecord:
    """The (D, D) matrix that carries every r_n to r_{n+k}, k = `shift`: r_{n+k} = `matrix` r_n.

    Args:
        angles: by how much each pair of dimensions is turned. pairs: the dimensions of each. None: it was fitted.
        residual: |r_{n+k} − matrix r_n| by |r_{n+k}|, over n; of a fitted matrix, over positions not fitted on.
        alone: dimensions without a partner, which no matrix carries: the last sine of an odd size.
    """

    encoding: str
    shift: int
    matrix: NDArray[np.float32]
    angles: NDArray[np.float32] | None
    pairs: NDArray[np.int64] | None
    residual: float
    alone: int = 0


@dataclass(frozen=True)
class LossBand:
    """The mean loss of the tokens at positions `first` … `last` − 1."""

    first: int
    last: int
    loss: float


@dataclass(frozen=True)
class BeyondContext:
    """A decoder's loss by position, within its context and beyond, where learned positions end; `curve` (bins,) is the
    mean over `bin` positions each."""

    context: int
    texts: int
    bands: tuple[LossBand, ...]
    bin: int
    curve: NDArray[np.float32]
    learned: bool = False
