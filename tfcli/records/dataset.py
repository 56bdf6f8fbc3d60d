"""What a prepared dataset holds, and what the cache does."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["dataset", "tokenizer"]
State = Literal["whole", "in use", "unfinished", "damaged"]


@dataclass(frozen=True)
class CacheEntry:
    """A prepared dataset or a trained tokenizer in the cache. `sources`: what it was made from, none where that is not
    recorded; `size`: bytes of its files; `age_seconds` since it was last used."""

    kind: Kind
    path: str
    sources: tuple[str, ...]
    size: int
    age_seconds: float
    state: State


@dataclass(frozen=True)
class PartCounts:
    """Counts of the training or the validation part. For pairs: `tokens` and `words` of both sides, `bytes` of the
    target. `words` stand between white space, and `spread` is the standard deviation of the pieces of one, from
    document to document; both are 0 where an older dataset has not counted them."""

    documents: int
    tokens: int
    bytes: int
    characters: int
    unknown: int
    words: int = 0
    spread: float = 0.0

    def pieces_per_word(self, ends: int) -> float | None:
        """Tokens a word; None where words were not counted.

        Args:
            ends: tokens that end a document, or a pair, which are of no word.
        """
        return (self.tokens - ends * self.documents) / self.words if self.words else None


@dataclass(frozen=True)
class DatasetRecord:
    """A prepared dataset in numbers."""

    path: str
    kind: Literal["text", "pairs"]
    sources: tuple[str, ...]
    split: str
    fingerprint: str
    tokenizer_fingerprint: str
    vocab_size: int
    train: PartCounts
    validation: PartCounts
    reused: bool = False
    only: Literal["whole", "validation"] | None = None
    """What both parts are of their source, where both are the same."""
