"""Chunking of long texts into bounded pieces, so that memory stays flat whatever a document's length."""

from collections.abc import Iterable, Iterator

from tfcli.corpora.source import Text, stretches

PIECE_CHARACTERS = 1 << 16


def pieces(text: Text, limit: int = PIECE_CHARACTERS) -> Iterator[str]:
    """Cut a text into pieces of at most `limit` characters whose concatenation is the text.

    A cut lies before a line end, else before a space, where no word spans it; only a longer run without
    either is cut within.
    """
    left = ""
    for stretch in stretches(text):
        left, start = left + stretch, 0
        while len(left) - start > limit:
            cut = left.rfind("\n", start + 1, start + limit + 1)
            if cut < 0:
                cut = left.rfind(" ", start + 1, start + limit + 1)
            if cut < 0:
                cut = start + limit
            yield left[start:cut]
            start = cut
        left = left[start:]
    yield left


class TextCounts:
    """A text in numbers, counted while it is read."""

    def __init__(self) -> None:
        self.documents = self.characters = self.bytes = self.words = 0

    def batches(self, texts: Iterable[Text]) -> Iterator[list[tuple[int, str]]]:
        """Pieces of the documents, each with its document's number from 1 on."""
        numbers: list[int] = []

        def counted() -> Iterator[str]:
            for text in texts:
                self.documents += 1
                for piece in pieces(text):
                    self.characters += len(piece)
                    self.bytes += len(piece.encode())
                    self.words += len(piece.split())
                    numbers.append(self.documents)
                    yield piece

        for batch in batches(counted()):
            yield list(zip(numbers, batch, strict=True))
            numbers.clear()


def batches(items: Iterable[str], characters: int = 1 << 20) -> Iterator[list[str]]:
    """Gather texts into lists of about `characters` characters."""
    batch: list[str] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item) + 1
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
