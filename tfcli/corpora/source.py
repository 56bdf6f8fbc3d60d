"""A corpus (data source) and its documents, which can be read again and again."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Part = Literal["train", "validation"]
PARTS: tuple[Part, Part] = ("train", "validation")
Kind = Literal["text", "pairs"]


@dataclass(frozen=True)
class Pair:
    """A sentence and its counterpart."""

    source: str
    target: str


@dataclass(frozen=True)
class LongText:
    """A text that is read anew, a stretch at a time, wherever it is used: its characters from `start` up to `stop`."""

    read: Callable[[], Iterator[str]]
    start: int = 0
    stop: int | None = None

    def __iter__(self) -> Iterator[str]:
        place = 0
        for stretch in self.read():
            end = place + len(stretch) if self.stop is None else min(self.stop, place + len(stretch))
            if self.start < end:
                yield stretch[max(0, self.start - place) : end - place]
            if end == self.stop:
                return
            place = end

    def __len__(self) -> int:
        return sum(map(len, self))

    def __getitem__(self, part: slice) -> "LongText":
        assert (self.start, self.stop, part.step) == (0, None, None)
        return LongText(self.read, part.start or 0, part.stop)


Text = str | LongText
Document = Text | Pair


@dataclass(frozen=True)
class Source:
    """Documents that can be read any number of times, always the same and in the same order."""

    names: tuple[str, ...]
    """As the user wrote them."""

    kind: Kind

    documents: Callable[[], Iterator[Document]]
    """Every document; of a source with its own division, both parts."""

    fingerprint: Callable[[], str]
    """Of the content: bytes of files; version, seed and count of generators; revision on the hub."""

    divided: Callable[[], Iterator[tuple[Part, Document]]] | None = None
    """The source's own division, where it has one: every document once, in the order of `documents`."""


def texts(document: Document) -> Iterator[Text]:
    """The texts of a document: itself, or both sides of a pair."""
    if isinstance(document, Pair):
        yield document.source
        yield document.target
    else:
        yield document


def stretches(text: Text) -> Iterable[str]:
    """The text in strings that follow each other."""
    return [text] if isinstance(text, str) else text


def is_blank(text: Text) -> bool:
    """True for text that is empty or white space alone (without copying it)."""
    return all(not stretch or stretch.isspace() for stretch in stretches(text))
