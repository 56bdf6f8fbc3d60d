"""A computation step by step: every matrix with its name, its formula and its shape in a lecture's notation."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

NotationName = Literal["bishop", "udl", "cs224n", "inf721"]
MatrixKind = Literal["signed", "weights", "mask"]
"""Numbers around 0; shares of 1; what may be attended to (0) and what not (−∞)."""


@dataclass(frozen=True)
class Matrix:
    """A matrix as a notation writes it: with tokens down, or across where its tokens are columns.

    `axes` are the symbols of its two sizes ("N", "D"). `sums` are shown beside rows or under columns, where these are
    distributions; None: there are none. −∞ stands for what a mask hides.

    Shape:
        values: (R, C), with R labels in `rows` and C in `columns`
    """

    name: str
    values: NDArray[np.float32]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axes: tuple[str, str]
    kind: MatrixKind = "signed"
    sums: Literal["rows", "columns"] | None = None


@dataclass(frozen=True)
class Measure:
    """A number that a step comes to, and what it says."""

    name: str
    value: float
    meaning: str


@dataclass(frozen=True)
class Step:
    """One step: its formula, the matrices that go in and come out, what was measured, and a few words."""

    title: str
    formula: str
    matrices: tuple[Matrix, ...] = ()
    measures: tuple[Measure, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Explanation:
    """A computation. `subtitle` says on what it is done; `slips` what the lecture prints otherwise, and why not so."""

    title: str
    subtitle: str
    notation: NotationName | None
    steps: tuple[Step, ...]
    slips: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorShape:
    """A tensor of a computation without its numbers: its axes in a notation, and how long they are."""

    name: str
    formula: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ShapeTrace:
    """Every tensor of a computation in its order."""

    title: str
    subtitle: str
    notation: NotationName
    tensors: tuple[TensorShape, ...]
    notes: tuple[str, ...] = ()
