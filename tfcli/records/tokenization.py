"""What training or applying a tokenizer found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenizerReport:
    """A tokenizer and its text in numbers."""

    algorithm: str
    vocab_size: int
    fingerprint: str
    documents: int
    characters: int
    bytes: int
    tokens: int
    unknown: int

    @property
    def bytes_per_token(self) -> float:
        """How much text a token carries."""
        return self.bytes / self.tokens if self.tokens else 0.0


@dataclass(frozen=True)
class Encoding:
    """One text as ids, and the text that each stands for, as it is; `render` makes it safe to print."""

    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    unknown: int
