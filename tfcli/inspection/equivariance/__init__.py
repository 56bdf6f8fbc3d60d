"""Permutation equivariance: what a model makes of the order of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EQUAL = 1e-4  # of the size of what is compared: below it lies what float32 rounds


@dataclass(frozen=True)
class Variant:
    """A model as it is, or with its positions or its causal mask changed."""

    positions: bool  # told by an encoding or a window; else tables are zero, nothing turned or hidden
    masked: bool
    own: bool  # as it is


@dataclass(frozen=True)
class Deviation:
    """How far f(P x) lies from P f(x) over random permutations P."""

    variant: Variant
    largest: float  # difference of two numbers
    relative: float  # the same by the root mean square of f(x)
    equivariant: bool  # whether nothing but rounding is left


@dataclass(frozen=True)
class NormLeak:
    """What earlier rows of a masked model learn of a later token through its norms."""

    statistics: Literal["each token", "across tokens"]  # what norms take mean and variance over
    largest: float
    relative: float
    leaks: bool


@dataclass(frozen=True)
class EquivarianceRecord:
    """Permutations of a text, and a later token changed under norms of both kinds."""

    model: str
    architecture: str
    encoding: str
    window: int | None  # of its attention, which tells positions too; None: it sees the whole text
    tokens: tuple[str, ...]
    permutations: int
    deviations: tuple[Deviation, ...]
    changed: int  # the token for `leaks`
    leaks: tuple[NormLeak, ...]


@dataclass(frozen=True)
class Half:
    """Attention or feed-forward of a layer, with its residual and its norm, run on its own."""

    layer: int
    name: Literal["attention", "feed_forward"]
    rows_alone: int  # that move when one row of its input does, the one included
    mixes: bool  # whether any but that one moves


@dataclass(frozen=True)
class PerturbationRecord:
    """One token's vector changed: how far every row has moved after each half of each layer."""

    model: str
    tokens: tuple[str, ...]
    changed: int
    masked: bool
    window: int | None
    moved: NDArray[np.float32]  # (T, 1 + 2 · L), a row's change by its length: of what enters, then a column a half
    halves: tuple[Half, ...]


@dataclass(frozen=True)
class OrderRecord:
    """Two texts of the same tokens in another order, each token's output beside its other one."""

    model: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    variants: tuple[Variant, ...]
    places: NDArray[np.int64]  # (T, 2), where token r of the first text stands in each; equal ones in their order
    moved: NDArray[np.float32]  # (T, variants), the length of a token's change by that of its vector
    sentence: NDArray[np.float32]  # (variants,), the same of the mean over tokens
