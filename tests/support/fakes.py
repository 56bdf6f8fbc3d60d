"""Stand-ins for a tokenizer and a divided corpus whose results can be worked out by hand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfcli.corpora import Document, Kind, Pair, Part, Source
from tfcli.files import digest
from tfcli.records.dataset import NONE_SKIPPED, SkippedRecords
from tfcli.records.roles import TokenRoles

UNKNOWN = 4
ROLES = TokenRoles(pad=0, bos=1, eos=2, mask=3, unk=UNKNOWN)
FIRST_LETTER = 5


@dataclass(frozen=True)
class FakeTokenizer:
    """One id a letter: 5 for "a", 6 for "b" … in the order of `alphabet`; the unknown token for others."""

    alphabet: str = "abcdefghijklmnopqrstuvwxyz \n"
    vocab_size: int = 40
    roles: TokenRoles = ROLES

    @property
    def fingerprint(self) -> str:
        return digest(self.alphabet, self.vocab_size)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self._id(letter) for letter in text] for text in texts]

    def count_unknown(self, ids: Sequence[int]) -> int:
        return sum(token == UNKNOWN for token in ids)

    def save(self, path: Path) -> None:
        path.write_text(self.alphabet)

    def _id(self, letter: str) -> int:
        place = self.alphabet.find(letter)
        return FIRST_LETTER + place if place >= 0 else UNKNOWN


@dataclass(frozen=True)
class FakeDivision:
    """Documents that already know their part; training and validation alternate while both last."""

    train: Sequence[Document]
    validation: Sequence[Document]
    split: str = "hash"
    name: str = "fake.txt"
    mixture: Sequence[Any] = ()
    cleaning: Any = None
    copies: Any = None

    @property
    def may_overlap(self) -> bool:
        return self.split != "hash"

    @property
    def removed(self) -> dict[str, int]:
        return self.cleaning.removed if self.cleaning else {}

    def tables(self) -> tuple[()]:
        return ()

    def skipped(self) -> SkippedRecords:
        return NONE_SKIPPED

    def require_unchanged(self) -> None:
        pass

    @property
    def source(self) -> Source:
        documents = [*self.train, *self.validation]
        kind: Kind = "pairs" if any(isinstance(document, Pair) for document in documents) else "text"
        return Source((self.name,), kind, lambda: iter(documents), lambda: self.fingerprint)

    @property
    def fingerprint(self) -> str:
        return digest([repr(document) for document in (*self.train, "|", *self.validation)])

    def divided(self) -> Iterator[tuple[Part, Document]]:
        return self.parts()

    def parts(self) -> Iterator[tuple[Part, Document]]:
        for index in range(max(len(self.train), len(self.validation))):
            if index < len(self.train):
                yield "train", self.train[index]
            if index < len(self.validation):
                yield "validation", self.validation[index]


def pairs(*sides: tuple[str, str]) -> list[Pair]:
    """Pairs from tuples."""
    return [Pair(source, target) for source, target in sides]


def as_any(fake: Any) -> Any:
    """A fake in the place of the real thing, for the type checker."""
    return fake
