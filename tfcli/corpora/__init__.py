"""A corpus (data source), its documents, which can be read again and again, and their texts in pieces."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from tfcli.records.dataset import SkippedRecords, TableReading

Part = Literal["train", "validation"]
PARTS: tuple[Part, Part] = ("train", "validation")
Kind = Literal["text", "pairs", "classify", "tag", "span"]
TASKS: tuple[Kind, ...] = ("classify", "tag", "span")  # labelled texts, called as the task that is trained on them
PIECE_CHARACTERS = 1 << 16
BATCH_CHARACTERS = 1 << 20  # of pieces that are encoded together: work for all cores in some 100 MB
T = TypeVar("T")


@dataclass(frozen=True)
class Pair:
    """A sentence and its counterpart."""

    source: str
    target: str


@dataclass(frozen=True)
class Labelled(Pair):
    """A text (`source`), read at `place`, with its labels (`target`), each with its characters: from, and up to."""

    spans: tuple[tuple[int, int, str], ...]
    place: str


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
Documents = Callable[[], Iterator[Document]]  # that can be read any number of times


@dataclass(frozen=True)
class Source:
    """Documents that can be read any number of times, always the same and in the same order."""

    names: tuple[str, ...]  # as the user wrote them
    kind: Kind
    documents: Documents  # every document; of a source with its own division, both parts
    fingerprint: Callable[[], str]  # of bytes of files; version, seed and count of generators; revision on the hub
    divided: Callable[[], Iterator[tuple[Part, Document]]] | None = None  # its own division, as ordered as `documents`
    skipped: Callable[[], SkippedRecords] = SkippedRecords  # records that cannot be read, as far as it has been read
    require_unchanged: Callable[[], None] = lambda: None  # a TfcliError of files that have changed since it was opened
    tables: tuple[TableReading, ...] = ()  # how its CSV and TSV files are read


def texts(document: Document) -> Iterator[Text]:
    """The texts of a document: itself, or both sides of a pair. Labels are no text."""
    sides = (document.source, document.target) if isinstance(document, Pair) else (document,)
    return iter(sides[:1] if isinstance(document, Labelled) else sides)


def stretches(text: Text) -> Iterable[str]:
    """The text in strings that follow each other."""
    return [text] if isinstance(text, str) else text


def is_blank(text: Text) -> bool:
    """True for text that is empty or white space alone (without copying it)."""
    return all(not stretch or stretch.isspace() for stretch in stretches(text))


def pieces(text: Text, limit: int = PIECE_CHARACTERS) -> Iterator[str]:
    """Cut a text into pieces of at most `limit` characters whose concatenation is the text. A cut lies before a line
    end, else before a space, where no word spans it; only a longer run without either is cut within."""
    left = ""
    for stretch in stretches(text):
        left, start = left + stretch, 0
        while len(left) - start > limit:
            cuts = (left.rfind(mark, start + 1, start + limit + 1) for mark in "\n ")
            cut = next((cut for cut in cuts if cut > 0), start + limit)
            yield left[start:cut]
            start = cut
        left = left[start:]
    yield left


def batched(stream: Iterable[T], text: Callable[[T], str], characters: int = BATCH_CHARACTERS) -> Iterator[list[T]]:
    """Group what has a text each into lists of about `characters`, at most one text over."""
    batch: list[T] = []
    held = 0
    for one in stream:
        batch.append(one)
        held += len(text(one)) + 1  # an empty text counts as well: a list of them must end, too
        if held >= characters:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
