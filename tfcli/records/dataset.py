"""What a dataset and a tokenizer are said to be: manifest, text statistics, vocabulary, comparison."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from tfcli.bench import Spread

Kind = Literal["dataset", "tokenizer"]
State = Literal["whole", "in use", "unfinished", "damaged"]
WholePart = Literal["whole", "validation"]  # of a source


@dataclass(frozen=True)
class CacheEntry:
    """What the cache holds: its `sources`, if they are recorded, its `size` in bytes, and when it was last used."""

    kind: Kind
    path: str
    sources: tuple[str, ...]
    size: int
    age_seconds: float
    state: State


@dataclass(frozen=True)
class PartCounts:
    """Counts of the training or the validation part; 0 where an older dataset has not counted."""

    documents: int
    tokens: int  # of pairs, of both sides
    bytes: int  # of pairs, of the target
    characters: int
    unknown: int
    words: int = 0  # between white space; of pairs, of both sides
    spread: float = 0.0  # the standard deviation of the pieces of a word, from document to document

    def joined(self, more: "PartCounts") -> "PartCounts":
        """The counts of both texts together; the spread is that of both about their own means."""
        words = self.words + more.words if self.words and more.words else 0
        spread = math.sqrt((self.spread**2 * self.words + more.spread**2 * more.words) / words) if words else 0.0
        sums = {one.name: getattr(self, one.name) + getattr(more, one.name) for one in fields(self)}
        return PartCounts(**sums | {"words": words, "spread": round(spread, 4)})

    def pieces_per_word(self, ends: int) -> float | None:
        """Tokens a word, less the `ends` of each document, or pair; None where words were not counted."""
        return (self.tokens - ends * self.documents) / self.words if self.words else None


@dataclass(frozen=True)
class SkippedRecords:
    """The records that could not be read and were left out: how many, and what is wrong with the first of them."""

    count: int = 0
    first: tuple[str, ...] = ()

    MOST: ClassVar[int] = 5  # how many are listed

    def __bool__(self) -> bool:
        return self.count > 0

    def joined(self, more: "SkippedRecords") -> "SkippedRecords":
        """Those of both."""
        return SkippedRecords(self.count + more.count, (self.first + more.first)[: self.MOST])

    def lines(self) -> Iterator[str]:
        """What is said of them; nothing where there are none."""
        if self.count:
            yield f"Left out, for they cannot be read: {self.count:,} record{'s' if self.count > 1 else ''}"
            yield from (f"  {sentence}" for sentence in self.first)
            if (more := self.count - len(self.first)) > 0:
                yield f"  … and {more:,} more"


NONE_SKIPPED = SkippedRecords()


@dataclass(frozen=True)
class MixedSource:
    """What a source has of a mixture, `max_epochs` times at most; others take its share from token `retired_at` on."""

    source: str
    weight: float
    documents: int
    tokens: int
    share: float
    epochs: float
    max_epochs: int | None = None
    retired_at: int | None = None


@dataclass(frozen=True)
class TableReading:
    """How CSV and TSV files of a source were read: those that were read alike share a record.

    Attributes:
        source: The source, as the user named it.
        files: The number of files.
        header: Whether the first row was read as the names of the columns.
        columns: The columns that were read, by name, or by number where there are no names.
    """

    source: str
    files: int
    header: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class DatasetRecord:
    """A prepared dataset in numbers."""

    path: str
    kind: Literal["text", "pairs", "classify", "tag", "span"]
    sources: tuple[str, ...]
    split: str
    fingerprint: str
    tokenizer_fingerprint: str
    vocab_size: int
    train: PartCounts
    validation: PartCounts
    reused: bool = False
    only: WholePart | None = None  # what both parts are of their source, where both are the same
    labels: tuple[str, ...] = ()  # of labelled texts
    mixture: tuple[MixedSource, ...] = ()  # the sources of the training part, where they have weights
    skipped: SkippedRecords = NONE_SKIPPED
    copies: int = 0  # validation documents that stand in training, too
    removed: dict[str, int] = field(default_factory=dict)  # documents left out before, by reason
    tables: tuple[TableReading, ...] = ()  # how CSV and TSV files were read


@dataclass(frozen=True)
class TokenizerReport:
    """A tokenizer and its text in numbers."""

    json_keys: ClassVar[tuple[Any, ...]] = (..., "bytes_per_token")
    algorithm: str
    vocab_size: int
    fingerprint: str
    documents: int
    characters: int
    bytes: int
    tokens: int
    unknown: int
    stretches_learned: float = 1.0  # of long ones without white space, the share that memory let it learn from
    skipped: SkippedRecords = NONE_SKIPPED
    learned_bytes: int | None = None  # of the text, what it was learned from

    @property
    def bytes_per_token(self) -> float:
        """How much text a token carries."""
        return self.bytes / self.tokens if self.tokens else 0.0


@dataclass(frozen=True)
class VocabularyExtension:
    """A run begun with more rows than the run has whose weights it takes."""

    rows_before: int
    rows: int
    tokens: int
    loss_before: float  # nats a target token of the first batch, with the new rows as they were drawn
    loss_after: float  # the same, with the means of what their tokens replace


@dataclass(frozen=True)
class Encoding:
    """One text as ids, and the text that each stands for, as it is; `render` makes it safe to print."""

    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    unknown: int


@dataclass(frozen=True)
class TokenizerQuality:
    """What one tokenizer makes of a text. Shares and rates are 0 to 1."""

    name: str
    algorithm: str
    vocab_size: int
    fingerprint: str
    tokens: int
    unknown: int
    bytes_per_token: float
    characters_per_token: float
    fertility: float  # tokens a word between white space (Rust et al. 2021, section 3.3, who cut at punctuation, too)
    whole_words: float  # share of the runs of letters and digits that lie in one known token
    single_characters: float  # share of the tokens that stand for one character, or for a part of one
    unknown_rate: float
    vocabulary_use: float  # share of the vocabulary, special tokens left out, that occurs in the text
    renyi_efficiency: float  # entropy, α = 2.5, over ln of the vocabulary's size (Zouhar et al. 2023, equation 9)
    round_trip: float  # share of the documents that come back exactly from their ids
    megabytes_per_second: Spread  # 10⁶ bytes of UTF-8, over the timed rounds


@dataclass(frozen=True)
class TokenizerComparison:
    """Several tokenizers on one text; `timed_bytes` of it were encoded in each of `rounds` rounds for their speed."""

    source: str
    documents: int
    characters: int
    bytes: int
    words: int
    timed_bytes: int
    rounds: int
    tokenizers: tuple[TokenizerQuality, ...]
