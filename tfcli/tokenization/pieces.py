"""Long texts in bounded pieces, so that memory stays flat whatever a document's length."""

from collections.abc import Iterable, Iterator

PIECE_CHARACTERS = 1 << 16


def pieces(text: str, limit: int = PIECE_CHARACTERS) -> Iterator[str]:
    """Cut a text into pieces of at most `limit` characters whose concatenation is the text.

    A cut lies before a line end, else before a space, where no word spans it; only a longer run without
    either is cut within.
    """
    start = 0
    while len(text) - start > limit:
        cut = text.rfind("\n", start + 1, start + limit + 1)
        if cut < 0:
            cut = text.rfind(" ", start + 1, start + limit + 1)
        if cut < 0:
            cut = start + limit
        yield text[start:cut]
        start = cut
    yield text[start:]


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
