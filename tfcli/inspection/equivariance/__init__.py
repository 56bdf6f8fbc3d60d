"""Permutation equivariance: what a model makes of the order of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


EQUAL = 1e-4
"""Of the size of what is compared: below it lies what float32 rounds."""


@dataclass(frozen=True)
class Variant:
    """A model as it is, or with its positions or its mask changed."""

    positions: bool
    """Whether positions are told, by an encoding or by a window. False: tables are zero, nothing turned or hidden."""
    masked: bool
    """Whether a token is kept from seeing those after it."""
    own: bool
    """Whether that is the model as it is."""


@dataclass(frozen=True)
class Deviation:
    """How far f(P x) lies from P f(x) over random permutations P."""

    variant: Variant
    largest: float
    """The largest difference of two numbers."""
    relative: float
    """The same, by the root mean square of f(x)."""
    equivariant: bool
    """Whether nothing but rounding is left."""


@dataclass(frozen=True)
class NormLeak:
    """What earlier rows of a masked model learn of a later token through its norms."""

    statistics: Literal["each token", "across tokens"]
    """What mean and variance are taken over."""
    largest: float
    relative: float
    leaks: bool


@dataclass(frozen=True)
class EquivarianceRecord:
    """Permutations of a text, and a later token changed under norms of both kinds."""

    model: str
    architecture: str
    encoding: str
    """The model's positions, as the recipe calls them."""
    window: int | None
    """Of its attention, which tells positions too. None: it sees the whole text."""
    tokens: tuple[str, ...]
    permutations: int
    deviations: tuple[Deviation, ...]
    changed: int
    """The token that is changed for `leaks`."""
    leaks: tuple[NormLeak, ...]


@dataclass(frozen=True)
class Half:
    """Attention or feed-forward of a layer, with its residual and its norm, run on its own."""

    layer: int
    name: Literal["attention", "feed_forward"]
    rows_alone: int
    """Rows that move when one row of its input does, the one included."""
    mixes: bool
    """Whether rows other than the changed one move."""


@dataclass(frozen=True)
class PerturbationRecord:
    """One token's vector changed: how far every row has moved after each half of each layer.

    Shape:
        moved: (T, 1 + 2 · L), the length of each row's change by that of the row: of what enters, then a column a half
    """

    model: str
    tokens: tuple[str, ...]
    changed: int
    masked: bool
    window: int | None
    """Of its attention. None: there is none."""
    moved: NDArray[np.float32]
    halves: tuple[Half, ...]


@dataclass(frozen=True)
class OrderRecord:
    """Two texts of the same tokens in another order, each token's output beside its other one.

    Shape:
        places: (T, 2), where token r of the first text stands in each; equal tokens are matched in their order
        moved: (T, variants), the length of a token's change by that of its vector
        sentence: (variants,), the same of the mean over tokens
    """

    model: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    variants: tuple[Variant, ...]
    places: NDArray[np.int64]
    moved: NDArray[np.float32]
    sentence: NDArray[np.float32]
