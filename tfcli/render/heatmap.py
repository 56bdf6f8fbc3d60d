"""A heat map: numbers as coloured cells, as wide as the console allows, with the colour scale written over it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.render.brush import Brush, brush_for
from tfcli.render.cells import Line, half_block_lines, legend, scale_bar, whole_cell_lines
from tfcli.render.colors import SIGNED, WEIGHTS, levels
from tfcli.render.headers import beside, ruler, vertical
from tfcli.render.pooling import max_pool
from tfcli.render.safe import fit, widest

_GAP = "│"  # between the columns that stand apart and the others


@dataclass(frozen=True)
class Layout:
    """How a map is put on the screen: every drawn cell stands for `row_factor` × `column_factor` values."""

    gutter: int
    cell_width: int
    rows_per_line: int
    row_factor: int
    column_factor: int


@dataclass(frozen=True)
class HeatMap:
    """`values[row, column]` from the smallest (or 0) to the largest; NaN stays empty.

    Cells are two columns wide with a row a line while that fits, else half blocks (two rows a line); without
    colour they are shades. What is still too wide keeps the largest value of each block, and says so.

    Args:
        values: (R, C).
        meaning: what a value is, for the legend.
        row_labels: one a row, safe to print; () for none.
        column_labels: one a column, safe to print, downwards over wide cells; else a ruler of numbers.
        column_numbers: what the ruler counts; () for 0, 1, 2 …
        signed: centre the colours on 0.
        square: make rows smaller by the same factor as columns.
        empty: what a cell without a value means, for the legend.
        wide: cells may be two columns wide; False keeps a map of many rows low.
        kept: so many first columns stand apart and are never made smaller.
        scale: the lowest and the highest value of the colours; None: those of `values`.
    """

    values: NDArray[np.float32]
    meaning: str
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()
    column_numbers: tuple[int, ...] = ()
    signed: bool = False
    square: bool = False
    empty: str = ""
    wide: bool = True
    kept: int = 0
    scale: tuple[float, float] | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush = brush_for(console, SIGNED if self.signed else WEIGHTS)
        layout = self._layout(options.max_width, brush.in_color)
        low, high = self._scale()
        apart = levels(max_pool(self.values[:, : self.kept], layout.row_factor, 1), low, high)
        grid = levels(max_pool(self.values[:, self.kept :], layout.row_factor, layout.column_factor), low, high)
        yield from self._legend(
            brush, low, high, layout, (len(grid), apart.shape[1] + grid.shape[1]), options.max_width
        )
        for header in self._header(layout):
            yield Text(" " * layout.gutter + header, no_wrap=True, overflow="crop")
        first_lines = _lines(apart, layout, brush)
        for number, line in enumerate(_lines(grid, layout, brush)):
            yield Segment(self._row_label(number, layout))
            if self.kept:
                yield from first_lines[number]
                yield Segment(_GAP, Style(dim=True))
            yield from line
            yield Segment.line()

    def columns_are_numbered(self, width: int) -> bool:
        """Whether there is room for a ruler of numbers only, not for column labels."""
        return not self.column_labels or self._layout(width, in_color=True).cell_width < 2

    def _layout(self, width: int, in_color: bool) -> Layout:
        columns = self.values.shape[1]
        gutter = min(widest(self.row_labels), max(8, width // 5)) + 1 if self.row_labels else 0
        room = max(1, width - gutter - (len(_GAP) if self.kept else 0))
        if self.wide and columns * 2 <= room:
            return Layout(gutter, 2, 1, 1, 1)
        rows_per_line = 2 if in_color else 1
        column_factor = -(-(columns - self.kept) // max(1, room - self.kept))
        return Layout(gutter, 1, rows_per_line, column_factor if self.square else 1, column_factor)

    def _scale(self) -> tuple[float, float]:
        if self.scale is not None:
            return self.scale
        if np.isnan(self.values).all():
            return 0.0, 0.0
        low, high = float(np.nanmin(self.values)), float(np.nanmax(self.values))
        if self.signed:
            furthest = max(-low, high)
            return -furthest, furthest
        return min(0.0, low), high

    def _header(self, layout: Layout) -> list[str]:
        numbers = self.column_numbers or tuple(range(self.values.shape[1]))
        rest = self._header_of(slice(self.kept, None), numbers, layout.column_factor, layout)
        if not self.kept:
            return rest
        first = self._header_of(slice(self.kept), numbers, 1, layout)
        return beside(first, rest, self.kept * layout.cell_width, len(_GAP))

    def _header_of(self, columns: slice, numbers: tuple[int, ...], factor: int, layout: Layout) -> list[str]:
        if self.column_labels and layout.cell_width >= 2:
            return vertical(self.column_labels[columns], layout.cell_width)
        return [ruler(numbers[columns][::factor], layout.cell_width)]

    def _row_label(self, line: int, layout: Layout) -> str:
        if not self.row_labels:
            return ""
        label = self.row_labels[line * layout.rows_per_line * layout.row_factor]
        return fit(label, layout.gutter - 1, "right") + " "

    def _legend(
        self, brush: Brush, low: float, high: float, layout: Layout, drawn: tuple[int, ...], width: int
    ) -> RenderResult:
        words = self.meaning
        if self.empty and np.isnan(self.values).any():
            words += f"  {'empty' if brush.in_color else '·'}: {self.empty}"
        bar = scale_bar(f"{low:.3g}", f"{high:.3g}", brush)
        yield from legend(bar, words, layout.gutter, width)
        if layout.row_factor * layout.column_factor > 1:
            rows, columns = self.values.shape
            chosen = "the furthest from 0" if self.signed else "the largest"
            apart = f"; the first {self.kept} apart" if self.kept else ""
            note = (
                f"{rows} × {columns} drawn as {drawn[0]} × {drawn[1]}: "
                f"a cell is {chosen} of {layout.row_factor} × {layout.column_factor}{apart}"
            )
            fits = layout.gutter + max(len(note), sum(part.cell_length for part in bar) + cell_len(words) + 2) <= width
            yield Text(" " * layout.gutter * fits + note, style="dim")


def _lines(grid: NDArray[np.intp], layout: Layout, brush: Brush) -> list[Line]:
    if layout.rows_per_line == 2:
        return half_block_lines(grid, brush)
    return whole_cell_lines(grid, brush, layout.cell_width)
