"""Which row of a batch goes on with which text, so that as few rows as possible are copied."""

from collections.abc import Sequence


def least_moves(rows: Sequence[int], first: int = 0) -> list[int]:
    """An order of texts in which as many as possible stand in the row they come from.

    A text that is continued twice stays once and is copied once; what has ended leaves a gap, which the last ones fill.

        >>> least_moves([2, 0, 0])          # text 1 stays in row 0, text 0 in row 2, and text 2 gets row 1
        [1, 2, 0]

    Args:
        rows: where each text comes from.
        first: the row that the first of them gets.

    Returns:
        For each row from `first` on, the number of the text that gets it.
    """
    order: list[int | None] = [None] * len(rows)
    moving = []
    for text, row in enumerate(rows):
        if 0 <= row - first < len(rows) and order[row - first] is None:
            order[row - first] = text
        else:
            moving.append(text)
    return [moving.pop() if text is None else text for text in order]


def shared_sources(sources: Sequence[int]) -> list[int]:
    """One entry for all the rows of a source, where every source has as many rows as the others, one behind the other;
    else the sources as they are.

    >>> shared_sources([3, 3, 5, 5]), shared_sources([3, 3, 5])
    ([3, 5], [3, 3, 5])
    """
    different = list(dict.fromkeys(sources))
    rows = len(sources) // len(different)
    return different if [one for one in different for _ in range(rows)] == list(sources) else list(sources)
