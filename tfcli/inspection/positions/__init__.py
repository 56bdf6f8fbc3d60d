"""Positional encodings: a table of each, what it should be, how it shifts, and the loss beyond the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIZE = 64  # positions and dimensions where nobody says so: a table that still fits into a terminal
HEADS = 8  # of ALiBi, as in the paper's example (Press et al. 2022, section 3)


@dataclass(frozen=True)
class PositionsRecord:
    """What an encoding says about positions: a vector for each, or a number for every distance and head.
    Vectors (sinusoidal, learned, rotary): `table[r, i]` is dimension i of position `first` + r, and `similarity[k]` the
    mean over n of r_n · r_{n+k} / |r_n||r_{n+k}|. Biases (alibi, t5): `table[r, h]` is what head h adds to the score of
    a key k = `first` + r tokens before its query, and after it where k < 0, of which there are length − 1."""

    encoding: str
    base: float | None  # L of the wavelengths
    length: int
    d_model: int | None
    table: NDArray[np.float32]
    similarity: NDArray[np.float32] | None
    rows: Literal["position", "distance"] = "position"
    columns: Literal["dimension", "head"] = "dimension"
    first: int = 0
    layout: Literal["interleaved", "halves"] | None = None  # of dimensions that share a wavelength; rotary tables: any
    scaling: float = 1.0  # what positions are divided by; where not all are, that of `stretching`
    stretching: str = "linear"  # `model.position_scaling_kind` of a run with rotary positions
    frequencies: NDArray[np.float64] | None = None  # by which each pair turns from one position to the next, if rotary
    merge: Literal["add", "concat", "query_key"] | None = None  # how a run joins its vectors to its tokens
    side: Literal["source", "target"] | None = None  # whose table it is, where the two sides have their own


@dataclass(frozen=True)
class Requirement:
    """One of the lecture's wishes for a positional encoding (Bishop and Bishop 2024, section 12.1.9)."""

    name: Literal["bounded", "unique", "beyond its length", "consistent distance", "in the data"]
    met: bool | None  # None: it was not measured
    value: float | None  # that decides it
    measured: str  # what the value is, or how to measure it


@dataclass(frozen=True)
class Requirements:
    """All of them for one encoding."""

    encoding: str
    origin: str  # whose numbers they are: a formula's, a run's, or untrained ones
    joins: str  # how it joins the tokens
    requirements: tuple[Requirement, ...]


Described = tuple[PositionsRecord, Requirements]  # an encoding's table, and what it should be


@dataclass(frozen=True)
class ShiftRecord:
    """The (D, D) matrix that carries every r_n to r_{n+k}, k = `shift`: r_{n+k} = `matrix` r_n."""

    encoding: str
    shift: int
    matrix: NDArray[np.float32]
    angles: NDArray[np.float32] | None  # by how much each pair of dimensions is turned; None: it was fitted
    pairs: NDArray[np.int64] | None
    residual: float  # |r_{n+k} − matrix r_n| by |r_{n+k}|, over n; of a fitted matrix, over positions not fitted on
    alone: int = 0  # dimensions without a partner, which no matrix carries: the last sine of an odd size


@dataclass(frozen=True)
class LossBand:
    """The mean loss of the tokens at positions `first` … `last` − 1."""

    first: int
    last: int
    loss: float


@dataclass(frozen=True)
class BeyondContext:
    """A decoder's loss by position, within its context and beyond, where learned positions end."""

    context: int
    texts: int
    bands: tuple[LossBand, ...]
    bin: int
    curve: NDArray[np.float32]  # (bins,), the mean over `bin` positions each
    learned: bool = False
