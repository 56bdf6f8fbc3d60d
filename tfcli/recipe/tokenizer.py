"""``[tokenizer]``: how text becomes ids."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, MinLen

Algorithm = Literal["bpe", "wordpiece", "unigram", "word", "char"]


@dataclass(frozen=True)
class TokenizerSection:
    """Train a tokenizer on the training text, or use one that exists."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    algorithm: Algorithm = "bpe"
    """bpe is byte-level: it can spell any text. The others count what they cannot spell as unknown."""

    vocab_size: Annotated[int, Ge(6), Le(2_000_000)] = 2048
    """Ids at most, special tokens included; a small text may give fewer. char and word keep the most frequent."""

    min_frequency: Annotated[int, Ge(1)] = 2
    """A merge, a word or a subword rarer than this is not learned (char keeps every character)."""

    lowercase: bool = False
    """Fold case first. What is decoded is then lower case too."""

    path: Annotated[str, MinLen(1)] | None = None
    """A tokenizer.json or a run to take instead of training one; the other fields then play no part."""
