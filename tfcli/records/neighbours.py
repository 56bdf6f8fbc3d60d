"""Which tokens lie close to which in an embedding matrix."""

from dataclasses import dataclass
from typing import Literal

MatrixSide = Literal["input", "output"]
"""The matrix that token ids pick rows of, or the head's; the same one where they are tied."""


@dataclass(frozen=True)
class Neighbour:
    """A token, the cosine of its vector with the asked one's, and its length."""

    token: str
    token_id: int
    cosine: float
    norm: float


@dataclass(frozen=True)
class TokenNeighbours:
    """A token with those nearest to it, the nearest first."""

    token: str
    token_id: int
    norm: float
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True)
class NeighboursRecord:
    """Nearest tokens by cosine among the `vocabulary` tokens that text is made of, special ones left out.

    `mean_cosine` is the mean over all pairs of different tokens, 0 where vectors point everywhere alike (Ethayarajh
    2019, section 4.1); `mean_norm` the mean length.
    """

    run: str
    matrix: MatrixSide
    tied: bool
    d_model: int
    vocabulary: int
    mean_cosine: float
    mean_norm: float
    tokens: tuple[TokenNeighbours, ...]
