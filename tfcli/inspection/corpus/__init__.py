"""A corpus in numbers: its size, lengths of documents, duplicates, frequent n-grams, the share of each source."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tfcli.corpora import Kind
from tfcli.records.dataset import NONE_SKIPPED, SkippedRecords


@dataclass(frozen=True)
class SourceShare:
    """One of several sources. `share`: of the tokens, or without a tokenizer of the bytes, of all."""

    source: str
    documents: int
    characters: int
    bytes: int
    tokens: int | None
    share: float


@dataclass(frozen=True)
class LengthBin:
    """A bar of the histogram: documents of at least `low` and at most `high` tokens or characters."""

    low: int
    high: int
    documents: int


@dataclass(frozen=True)
class Ngram:
    """Words that follow each other, and how often they do."""

    text: str
    count: int


@dataclass(frozen=True)
class Lengths:
    """Of the documents. `p10` to `p90`: so many in a hundred are at most as long."""

    unit: Literal["tokens", "characters"]
    shortest: int
    p10: int
    median: int
    p90: int
    longest: int
    histogram: tuple[LengthBin, ...]


@dataclass(frozen=True)
class CorpusReport:
    """Several sources as one corpus. A pair is a document; all counts are of both sides."""

    json_keys: ClassVar[tuple[Any, ...]] = (..., "bytes_per_token")
    kind: Kind
    documents: int
    characters: int
    bytes: int
    words: int
    tokens: int | None
    exact: int  # documents of which the same stood before
    exact_bytes: int
    near: int | None  # documents that are nearly one that stood before; None: nobody has looked
    lengths: Lengths
    ngram_size: int
    ngram_error: int  # so many times more often may each have occurred than counted
    ngrams: tuple[Ngram, ...]
    sources: tuple[SourceShare, ...]
    skipped: SkippedRecords = NONE_SKIPPED

    @property
    def bytes_per_token(self) -> float | None:
        """How much text a token carries; None without a tokenizer."""
        return self.bytes / self.tokens if self.tokens else None
