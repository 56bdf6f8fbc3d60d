"""Long texts in bounded pieces, so that memory stays flat whatever a document's length."""

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
