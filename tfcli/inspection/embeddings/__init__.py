"""Embeddings as records: the ids of a text with their vectors, nearest neighbours, and vectors of whole texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tfcli.inspection.probe import Probe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TokenRole = Literal["text", "special", "unknown"]  # special: no text holds it, and it is put around or in one


@dataclass(frozen=True)
class Word:
    """A word of a text, or a mask, and the places of its pieces among the tokens."""

    text: str
    places: tuple[int, ...]
    kind: Literal["word", "sign", "special"] = "word"  # "sign": punctuation or white space alone


@dataclass(frozen=True)
class TokenRow:
    """A token, or a word of several, as the model reads it."""

    position: int
    token_id: int
    token: str
    role: TokenRole
    first: int | None  # of the characters that it stands for; None where there are none, or a mask among the tokens
    end: int | None  # behind the last of them
    bytes: int
    norm: float  # the length of its row of E, scaled as the model scales it
    position_norm: float | None  # the length of the vector that its position adds
    pieces: int = 1  # tokens of a word that are merged in it


@dataclass(frozen=True)
class TokensRecord:
    """A text and its tokens. `words` stand between white space; `scale` is what the model multiplies rows of E with."""

    json_keys: ClassVar[tuple[Any, ...]] = (..., "fertility", "bytes_per_token")
    run: str
    algorithm: str
    vocab_size: int
    d_model: int
    scale: float
    context: int
    text: str
    characters: int
    bytes: int
    words: int
    tokens: tuple[TokenRow, ...]

    @property
    def of_text(self) -> int:
        """Tokens without the special ones."""
        return sum(row.pieces for row in self.tokens if row.role != "special")

    @property
    def read(self) -> int:
        """Tokens that the model reads."""
        return sum(row.pieces for row in self.tokens)

    @property
    def fertility(self) -> float | None:
        """Tokens a word (Rust et al. 2021); None without a word."""
        return self.of_text / self.words if self.words else None

    @property
    def bytes_per_token(self) -> float | None:
        """How much text a token carries; None without a token."""
        return self.bytes / self.of_text if self.of_text else None


MatrixSide = Literal["input", "output"]  # the matrix that token ids pick rows of, or the head's; one where tied


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
    """Nearest tokens by cosine; 0 in the mean where vectors point everywhere alike (Ethayarajh 2019, section 4.1)."""

    run: str
    matrix: MatrixSide
    tied: bool
    d_model: int
    vocabulary: int  # the tokens that are not special
    mean_cosine: float  # over all pairs of different ones
    mean_norm: float
    tokens: tuple[TokenNeighbours, ...]


Pool = Literal["mean", "first", "last"]  # of a text's tokens, special ones among them and padding not


@dataclass(frozen=True)
class EmbeddingsRecord:
    """A vector a text."""

    run: str
    architecture: str
    pool: Pool
    layer: int | None  # whose output was pooled; None: the last, behind its norm
    texts: tuple[str, ...]
    tokens: NDArray[np.int64]  # (N,), as how many each was read
    vectors: NDArray[np.float32]  # (N, D), not normalised

    def cosines(self) -> NDArray[np.float32]:
        """How alike texts are: u·v / ‖u‖‖v‖, (N, N)."""
        import numpy as np

        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        unit = self.vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        found: NDArray[np.float32] = unit @ unit.T
        return found


@dataclass(frozen=True)
class Components:
    """Maps of N labelled points on the first two principal components of M sets of vectors: `points` (M, N, 2), and the
    `shares` of the variance, (M, 2). `probe`: whether the vectors tell the labels; None: not measured."""

    run: str
    what: str
    labels: tuple[str, ...]
    maps: tuple[str, ...]
    points: NDArray[np.float32]
    shares: NDArray[np.float32]
    probe: Probe | None
