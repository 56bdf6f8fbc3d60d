"""How a map lies in an area of the screen: cells as large as fit, else half blocks, else pooled or cropped."""

from dataclasses import dataclass, replace

from tfcli.render.headers import TALLEST
from tfcli.render.safe import widest

_SIZES = ((12, 6), (12, 5), (10, 5), (10, 4), (8, 4), (8, 3), (6, 3), (6, 2), (4, 2), (4, 1), (2, 1))
"""Widths and heights of a cell, the largest first; from 4 columns on there is room for a number in it."""
_ZOOMED = (4, 1)
_MARKS = 2  # the cursor's mark before a label and the space behind it


@dataclass(frozen=True)
class Grid:
    """Where values are drawn.

    Args:
        gutter: columns before the cells; header: lines above them.
        cell_width, cell_height: columns and lines of a cell; of half blocks, two cells share a line.
        first_row, rows, first_column, columns: the part of the map that is drawn.
        factor: each drawn cell stands for so many rows and columns.
    """

    gutter: int
    header: int
    cell_width: int
    cell_height: int
    rows: int
    columns: int
    halves: bool = False
    first_row: int = 0
    first_column: int = 0
    factor: int = 1

    @property
    def lines(self) -> int:
        """Lines that the cells take."""
        drawn = -(-self.rows // self.factor)
        return -(-drawn // 2) if self.halves else drawn * self.cell_height

    @property
    def is_labelled(self) -> bool:
        """Whether columns have room for the labels of their tokens."""
        return self.cell_width > 1

    def place(self, x: int, y: int) -> tuple[int, int] | None:
        """The row and the column of the map under a point of the area; None beside the cells."""
        x, y = x - self.gutter, y - self.header
        if x < 0 or y < 0 or y >= self.lines or x >= -(-self.columns // self.factor) * self.cell_width:
            return None
        down = y * 2 if self.halves else y // self.cell_height
        row, column = down * self.factor, x // self.cell_width * self.factor
        return self.first_row + min(row, self.rows - 1), self.first_column + min(column, self.columns - 1)

    def point(self, row: int, column: int) -> tuple[int, int]:
        """The drawn cell, from 0, that a row and a column of the map are in."""
        return (row - self.first_row) // self.factor, (column - self.first_column) // self.factor


def lay_out(
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    area: tuple[int, int],
    cursor: tuple[int, int],
    *,
    zoomed: bool,
    in_color: bool,
) -> Grid:
    """The grid of a map in an area.

    Args:
        rows, columns: the labels.
        area: columns and lines of the screen.
    """
    width, height = area
    gutter = min(widest(rows), max(6, width // 5)) + _MARKS
    header = min(widest(columns), TALLEST, max(2, height // 4)) + 1
    room = max(1, width - gutter)
    whole = Grid(gutter, header, 1, 1, len(rows), len(columns))
    for cell_width, cell_height in _SIZES:
        # Labels that fit across their cells need one line; downwards they take what the cells leave.
        left = height - len(rows) * cell_height
        least = 2 if widest(columns) < cell_width else min(header, 3)
        above = 2 if widest(columns) < cell_width else min(widest(columns) + 1, TALLEST + 1, left)
        fits = len(columns) * cell_width <= room and left >= least
        if fits and (cell_width >= _ZOOMED[0] or not zoomed):
            return replace(whole, header=above, cell_width=cell_width, cell_height=cell_height)
    if zoomed:  # as many cells as fit, with the cursor in the middle where it can be
        cell_width, cell_height = _ZOOMED
        down, across = min(len(rows), max(1, height - header)), min(len(columns), max(1, room // cell_width))
        first = around(cursor[0], down, len(rows)), around(cursor[1], across, len(columns))
        return Grid(gutter, header, cell_width, cell_height, down, across, False, *first)
    if in_color and len(columns) <= room and len(rows) <= 2 * (height - header):
        # Few columns grow until the map is as wide as it is high.
        cell_width = max(1, min(8, room // len(columns), len(rows) // len(columns)))
        return replace(whole, header=header if cell_width > 1 else 2, cell_width=cell_width, halves=True)
    lines = max(1, height - 2)  # a ruler of numbers and the cursor's mark stand above
    factor = max(-(-len(columns) // room), -(-len(rows) // (lines * (2 if in_color else 1))))
    return replace(whole, header=2, halves=in_color, factor=factor)


def around(index: int, count: int, total: int) -> int:
    """The first of `count` among `total` with `index` in their middle where it can be."""
    return max(0, min(index - count // 2, total - count))
