"""A heat map: numbers as coloured cells, as wide as the console allows, with the colour scale written over it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby, zip_longest
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.draw.colors import NO_VALUE, NO_VALUE_MARK, SIGNED, WEIGHTS, Brush, brush_for, levels
from tfcli.draw.safe import fit, widest

Line = list[Segment]
_DIM = Style(dim=True)


def half_block_lines(levels: NDArray[np.intp], brush: Brush) -> list[Line]:
    """Levels (R, C), one column a cell, two rows a line: the upper is the ink of a ▀, the lower its paper."""
    rows = levels.tolist()
    if len(rows) % 2:
        rows.append([NO_VALUE] * levels.shape[1])

    def segment(top: int, bottom: int, length: int) -> Segment:
        if top == NO_VALUE:
            return Segment(" " * length) if bottom == NO_VALUE else Segment("▄" * length, brush.style(bottom))
        return Segment("▀" * length, brush.style(top, bottom))

    pairs = (zip(upper, lower, strict=True) for upper, lower in zip(rows[::2], rows[1::2], strict=True))
    return [[segment(*both, len(list(run))) for both, run in groupby(line)] for line in pairs]


def whole_cell_lines(levels: NDArray[np.intp], brush: Brush, width: int) -> list[Line]:
    """Levels (R, C), one row a line, each value `width` cells wide: coloured, or as a glyph."""
    rows = levels.tolist()
    if not brush.in_color:
        return _glyph_lines(rows, brush, width)
    papers = [brush.style(NO_VALUE, level) for level in range(NO_VALUE)] + [None]
    return [[Segment(" " * width * len(list(run)), papers[level]) for level, run in groupby(row)] for row in rows]


def _glyph_lines(rows: list[list[int]], brush: Brush, width: int) -> list[Line]:
    glyphs = [brush.glyph(level) * width for level in range(NO_VALUE + 1)]
    tints = [brush.tint(level) for level in range(NO_VALUE + 1)]
    return [
        [Segment("".join([glyphs[level] for level in run]), tint) for tint, run in groupby(row, key=tints.__getitem__)]
        for row in rows
    ]


def labelled_row(
    label: str,
    texts: Sequence[str],
    levels: Sequence[int],
    widths: Sequence[int],
    brush: Brush,
    *,
    align: Literal["left", "right", "center"] = "right",
    before: int = 0,
    behind: int = 0,
    faint: Collection[str] = (),
    gaps: Mapping[int, str] = {},
) -> Line:
    """One row of a matrix as text in cells: its label, then each text on its level's colour, NO_VALUE on none. `before`
    and `behind` are blanks of a cell, of its width, that keep the terminal's own colour; `faint` texts stand for no
    number; `gaps` stand before their columns."""
    line = [Segment(label)] if label else []
    for column, (text, level, width) in enumerate(zip(texts, levels, widths, strict=True)):
        if column in gaps:
            line.append(Segment(gaps[column], _DIM))
        if level == NO_VALUE or text in faint:
            line.append(Segment(fit(text, width, align), _DIM if text in faint else None))
            continue
        own = Segment(fit(text, width - before - behind, align), brush.readable(level) if brush.in_color else None)
        line += [Segment(" " * before), own, Segment(" " * behind)]
    return line


def changed(line: Line, left: int, width: int, style: Style, text: str | None = None) -> Line:
    """A line whose `width` cells from `left` on have this style, and this text where one is given."""
    end = max(left + width, sum(segment.cell_length for segment in line))
    before, own, behind = Segment.divide(Segment.adjust_line_length(line, end), [left, left + width, end])
    return [*before, Segment("".join(one.text for one in own) if text is None else text, style), *behind]


def frame(lines: list[Line], top: int, left: int, width: int, height: int, style: Style) -> None:
    """Draw a frame on lines, so many cells wide and lines high; what is in it stays."""
    for y in range(height):
        first, between, last = "┏━┓" if y == 0 else "┗━┛" if y == height - 1 else "┃ ┃"
        line = changed(lines[top + y], left, 1, style, first)
        if between == "━":
            line = changed(line, left + 1, width - 2, style, between * (width - 2))
        lines[top + y] = changed(line, left + width - 1, 1, style, last)


def legend(bar: Line, words: str, gutter: int, width: int) -> RenderResult:
    """A colour scale and what it means: behind `gutter` cells where that fits, else in one line, else in two."""
    words = f"  {words}" if bar else words
    taken = sum(segment.cell_length for segment in bar) + cell_len(words)
    yield Segment(" " * gutter if gutter + taken <= width else "")
    yield from bar
    if taken <= width:
        yield Segment(words, _DIM)
    if taken <= width or bar:
        yield Segment.line()
    if taken > width:
        yield Text(words.strip(), style="dim")


def scale_bar(low: str, high: str, brush: Brush) -> Line:
    """The colour scale from its lowest to its highest value, with both written beside it."""
    top = len(brush.colormap.table) - 1
    if brush.in_color:
        middle = [Segment(" ", brush.style(NO_VALUE, round(i / 15 * top))) for i in range(16)]
    else:
        last = len(brush.glyphs) - 1
        [drawn] = _glyph_lines([[round(i / last * top) for i in range(last + 1)]], brush, 2)
        middle = [Segment("["), *drawn, Segment("]")]
    return [Segment(f"{low} "), *middle, Segment(f" {high}")]


def max_pool(values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """Blocks of `rows` × `columns` become their value furthest from 0, sign kept: (⌈R / rows⌉, ⌈C / columns⌉). A mean
    would melt one strong weight among many weak ones. NaN (no value) gives way to any value."""
    return _pool(_pool(values, rows, axis=0), columns, axis=1)


def _pool(values: NDArray[np.float32], size: int, axis: int) -> NDArray[np.float32]:
    if size == 1:
        return values
    starts = np.arange(0, values.shape[axis], size)
    highest, lowest = (end.reduceat(values, starts, axis=axis) for end in (np.fmax, np.fmin))
    return np.where(-lowest > highest, lowest, highest)


TALLEST = 12  # lines a downward header may take; longer labels are cut


def vertical(labels: tuple[str, ...], cell_width: int) -> list[str]:
    """Each label downwards over its own column of `cell_width` cells; a character wider than that is shown as ▯."""
    upwards = [*zip_longest(*(reversed(_letters(label, cell_width)) for label in labels), fillvalue="")]
    return ["".join(fit(letter, cell_width, "center") for letter in line) for line in reversed(upwards)]


def beside(first: list[str], rest: list[str], width: int, gap: int) -> list[str]:
    """Two headers of one table, the first `width` cells wide, with `gap` cells between them; both end at the bottom.

    >>> beside(["0"], ["a", "b"], 2, 1)
    ['   a', '0  b']
    """
    left, right = ([""] * (max(len(first), len(rest)) - len(lines)) + lines for lines in (first, rest))
    return [fit(one, width) + " " * gap + other for one, other in zip(left, right, strict=True)]


def _letters(label: str, cell_width: int) -> list[str]:
    letters: list[str] = []
    for character in label:
        if letters and cell_len(character) == 0:
            letters[-1] += character
        else:
            letters.append(character if cell_len(character) <= cell_width else "▯")
    return letters if len(letters) <= TALLEST else [*letters[: TALLEST - 1], "⋮"]


def ruler(numbers: tuple[int, ...], cell_width: int) -> str:
    """The number of every so many columns, its first digit over its column.

    >>> ruler(tuple(range(24)), 1)
    '0         10        20'
    """
    longest, line = len(str(max(numbers, default=0))), ""
    # The least of 1, 2, 10, 20, 100 … that leaves room: even, so that pairs of columns stay in step.
    steps = (digit * 10**power for power in count() for digit in (1, 2))
    for column in range(0, len(numbers), next(step for step in steps if step * cell_width >= longest + 2)):
        number, at = str(numbers[column]), column * cell_width
        if at + len(number) <= len(numbers) * cell_width or column == 0:
            line = line.ljust(at) + number
    return line


_GAP = "│"  # between the columns that stand apart and the others


class Layout(NamedTuple):
    """How a map is put on the screen: every drawn cell stands for `row_factor` × `column_factor` values."""

    gutter: int
    cell_width: int
    rows_per_line: int
    row_factor: int
    column_factor: int


@dataclass(frozen=True)
class HeatMap:
    """`values` (R, C) from the smallest (or 0) to the largest; NaN stays empty. Cells are two columns wide with a row a
    line while that fits, else half blocks (two rows a line); without colour they are shades. What is still too wide
    keeps the largest value of each block, and says so."""

    values: NDArray[np.float32]
    meaning: str  # of a value, for the legend
    row_labels: tuple[str, ...] = ()  # safe to print
    column_labels: tuple[str, ...] = ()  # downwards over wide cells, else a ruler of numbers
    column_numbers: tuple[int, ...] = ()  # what the ruler counts; () for 0, 1, 2 …
    signed: bool = False  # centre the colours on 0
    square: bool = False  # make rows smaller by the same factor as columns
    empty: str = ""  # what a cell without a value means
    wide: bool = True  # cells may be two columns wide; False keeps a map of many rows low
    kept: int = 0  # so many first columns stand apart and are never made smaller
    scale: tuple[float, float] | None = None  # the lowest and the highest value of the colours; None: those of `values`

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush = brush_for(console, SIGNED if self.signed else WEIGHTS)
        layout, (low, high) = self._layout(options.max_width, brush.in_color), self._scale()
        apart = levels(max_pool(self.values[:, : self.kept], layout.row_factor, 1), low, high)
        grid = levels(max_pool(self.values[:, self.kept :], layout.row_factor, layout.column_factor), low, high)
        drawn = len(grid), apart.shape[1] + grid.shape[1]
        yield from self._legend(brush, low, high, layout, drawn, options.max_width)
        for header in self._header(layout):
            yield Text(" " * layout.gutter + header, no_wrap=True, overflow="crop")
        first_lines, lines = (
            half_block_lines(part, brush)
            if layout.rows_per_line == 2
            else whole_cell_lines(part, brush, layout.cell_width)
            for part in (apart, grid)
        )
        for number, line in enumerate(lines):
            if self.row_labels:
                label = self.row_labels[number * layout.rows_per_line * layout.row_factor]
                yield Segment(fit(label, layout.gutter - 1, "right") + " ")
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
        # Labels have a fifth of the width, or what cells of two columns leave.
        gutter = min(widest(self.row_labels), max(8, width // 5, width - 2 * columns - 2)) + 1 if self.row_labels else 0
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
        return (min(low, -high), max(-low, high)) if self.signed else (min(0.0, low), high)

    def _header(self, layout: Layout) -> list[str]:
        numbers = self.column_numbers or tuple(range(self.values.shape[1]))

        def of(columns: slice, factor: int) -> list[str]:
            if self.column_labels and layout.cell_width >= 2:
                return vertical(self.column_labels[columns], layout.cell_width)
            return [ruler(numbers[columns][::factor], layout.cell_width)]

        rest = of(slice(self.kept, None), layout.column_factor)
        return beside(of(slice(self.kept), 1), rest, self.kept * layout.cell_width, len(_GAP)) if self.kept else rest

    def _legend(
        self, brush: Brush, low: float, high: float, layout: Layout, drawn: tuple[int, ...], width: int
    ) -> RenderResult:
        words = self.meaning
        if self.empty and np.isnan(self.values).any():
            words += f"  {'empty' if brush.in_color else NO_VALUE_MARK}: {self.empty}"
        bar = scale_bar(f"{low:.3g}", f"{high:.3g}", brush)
        yield from legend(bar, words, layout.gutter, width)
        if layout.row_factor * layout.column_factor > 1:
            drawing = "{} × {} drawn as {} × {}".format(*self.values.shape, *drawn)
            chosen = "the furthest from 0" if self.signed else "the largest"
            apart = f"; the first {self.kept} apart" if self.kept else ""
            note = f"{drawing}: a cell is {chosen} of {layout.row_factor} × {layout.column_factor}{apart}"
            fits = layout.gutter + max(len(note), sum(part.cell_length for part in bar) + cell_len(words) + 2) <= width
            yield Text(" " * layout.gutter * fits + note, style="dim")


@dataclass(frozen=True)
class NumberMap:
    """Signed `values` (R, C) written with two digits on their colours, a row a line. Where they do not fit, groups of
    columns stand below each other, and what is still too wide is a `HeatMap`. NaN stays empty. `groups`: the names
    above so many columns each. `scale`: the value of the strongest colour; None: the furthest from 0."""

    values: NDArray[np.float32]
    meaning: str
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    groups: tuple[tuple[str, int], ...] = ()
    scale: float | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        furthest = self.scale or float(np.nanmax(np.abs(self.values), initial=0.0)) or 1.0
        texts = [["" if np.isnan(one) else signed(one) for one in row] for row in self.values.tolist()]
        cell, gutter = 1 + max(len(text) for row in texts for text in row), widest(self.row_labels) + 1
        cell = max(
            cell, widest(self.column_labels) + 1, *(-(-(len(name) + 1) // columns) for name, columns in self.groups)
        )
        if gutter + cell * len(self.column_labels) > options.max_width:
            yield from self._apart(furthest)
            return
        brush = brush_for(console, SIGNED)
        above = "".join(fit(f" {name}", cell * columns) for name, columns in self.groups)
        for header in filter(str.strip, (above, "".join(fit(label, cell, "right") for label in self.column_labels))):
            yield Segment(" " * gutter + header.rstrip() + "\n", _DIM)
        painted = levels(self.values, -furthest, furthest).tolist()
        for label, row, colors in zip(self.row_labels, texts, painted, strict=True):
            yield from labelled_row(fit(label, gutter), row, colors, [cell] * len(row), brush, before=1)
            yield Segment.line()

    def _apart(self, furthest: float) -> RenderResult:
        if len(self.groups) < 2:
            texts = self.meaning, self.row_labels, self.column_labels
            yield HeatMap(self.values, *texts, signed=True, scale=(-furthest, furthest))
            return
        begin = 0
        for name, columns in self.groups:
            yield Text(name if begin else f"{name}, {self.meaning}", style="dim")
            values, labels = self.values[:, begin : begin + columns], self.column_labels[begin : begin + columns]
            yield replace(self, values=values, column_labels=labels, groups=(), scale=furthest)
            begin += columns


def signed(value: float) -> str:
    """With two digits behind the point, and none before it where that is 0.

    >>> [signed(value) for value in (0.814, -0.04, 1.25, -0.001, 0.0, 4321.0)]
    ['.81', '-.04', '1.25', '.00', '0', '4.32e+03']
    """
    if abs(value) >= 1000 or not value:
        return f"{value:.3g}"
    shown = f"{value:.2f}"
    return shown.replace("0.", ".", 1).replace("-.00", ".00") if abs(value) < 1 else shown
