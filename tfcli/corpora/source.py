"""What a corpus is to the rest of the program: documents that can be read again and again."""

from collections.abc import Callable, Iterator
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


Document = str | Pair


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


def texts(document: Document) -> Iterator[str]:
    """The strings of a document: the text itself, or both sides of a pair."""
    if isinstance(document, Pair):
        yield document.source
        yield document.target
    else:
        yield document


def is_blank(text: str) -> bool:
    """True for text that is empty or white space alone (without copying it)."""
    return not text or text.isspace()
