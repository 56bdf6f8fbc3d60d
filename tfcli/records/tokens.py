"""A text as a model reads it: ids, the vectors that they pick, and the words that they spell."""

from dataclasses import dataclass
from typing import Literal

TokenRole = Literal["text", "special", "unknown"]
"""A part of the text; a token that no text holds, put around it or in it; the one for what is not known."""


@dataclass(frozen=True)
class Word:
    """A word of a text and the places of its pieces among the tokens; "sign": punctuation or white space alone.

    A mask stands for a word, and is one.
    """

    text: str
    places: tuple[int, ...]
    kind: Literal["word", "sign", "special"] = "word"


@dataclass(frozen=True)
class TokenRow:
    """One token at its position, from 0.

    `first` and `end` are the characters of the text that it stands for, from and up to, None where it stands for none
    or a mask is among the tokens; `bytes` counts those of its text, 0 of a special token. `norm` is the length of its
    row of E, scaled as the model scales it; `position_norm` that of the vector its position adds, None where positions
    act elsewhere.
    """

    position: int
    token_id: int
    token: str
    role: TokenRole
    first: int | None
    end: int | None
    bytes: int
    norm: float
    position_norm: float | None
    pieces: int = 1
    """Of a word whose tokens are merged, how many there are."""


@dataclass(frozen=True)
class TokensRecord:
    """A text and its tokens. `words` is what stands between white space; `context` how many tokens the model can
    read; `scale` what it multiplies rows of E with."""

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
