"""What of a matrix is shown where not all of it fits: its beginning, a gap, and its last row or column."""

from collections.abc import Sequence

Kept = list[int | None]
"""Indices in their order; None: a gap."""

GAP = 2
"""Cells of the "…" that stands for columns left out."""


def kept_columns(widths: Sequence[int], room: int) -> Kept:
    """All columns if they fit; else as many of the first as do, a gap, and the last one.

    >>> kept_columns([6, 6, 6, 6], 24), kept_columns([6, 6, 6, 6], 20)
    ([0, 1, 2, 3], [0, 1, None, 3])
    """
    if sum(widths) <= room:
        return list(range(len(widths)))
    left, first = room - widths[-1] - GAP, 0
    while first < len(widths) - 2 and widths[first] <= left:
        left -= widths[first]
        first += 1
    return [*range(max(1, first)), None, len(widths) - 1]


def kept_rows(rows: int, most: int, shown: int) -> Kept:
    """All rows if there are at most `most`; else `shown` lines: the first ones, a gap, and the last.

    >>> kept_rows(4, 4, 3), kept_rows(9, 4, 3)
    ([0, 1, 2, 3], [0, None, 8])
    """
    if rows <= most:
        return list(range(rows))
    return [*range(shown - 2), None, rows - 1]
