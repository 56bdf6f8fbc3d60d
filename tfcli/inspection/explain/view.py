"""An explanation drawn step by step: matrices with their shapes beside each other, formulas, and what was measured."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table as Grid
from rich.text import Text

from tfcli.draw.colors import NO_VALUE, SIGNED, WEIGHTS, Brush, brush_for, has_colors, levels
from tfcli.draw.heatmap import HeatMap, Line, labelled_row, scale_bar
from tfcli.draw.safe import fit, printable, token_label, widest
from tfcli.draw.tables import CsvTable
from tfcli.inspection.explain import (
    Explanation,
    Matrix,
    MatrixKind,
    Measure,
    PositionExplanation,
    ShapeTrace,
    Spelling,
    Step,
)

Kept = list[int | None]
"""Indices in their order; None: a gap."""

_GAP = 2
"""Cells of the "…" that stands for columns left out."""


def kept_columns(widths: Sequence[int], room: int) -> Kept:
    """All columns if they fit; else as many of the first as do, a gap, and the last one.

    >>> kept_columns([6, 6, 6, 6], 24), kept_columns([6, 6, 6, 6], 20)
    ([0, 1, 2, 3], [0, 1, None, 3])
    """
    if sum(widths) <= room:
        return list(range(len(widths)))
    left, first = room - widths[-1] - _GAP, 0
    while first < len(widths) - 2 and widths[first] <= left:
        left -= widths[first]
        first += 1
    return [*range(max(1, first)), None, len(widths) - 1]


def _kept_rows(rows: int) -> Kept:
    """All rows if there are few; else the first ones, a gap, and the last."""
    return list(range(rows)) if rows <= _MOST_ROWS else [*range(_SHOWN_ROWS - 2), None, rows - 1]


HIDDEN = "−∞"


def formatter(values: NDArray[np.float32], kind: MatrixKind) -> Callable[[float], str]:
    """How a matrix writes its numbers: whole ones without decimals, shares of 1 without the leading 0 and "·" where
    they are exactly 0, others with two decimals, or with more where all of them are small.

    >>> signed = formatter(np.array([[-0.456, 12.0]]), "signed")
    >>> signed(-0.456), signed(12.0), formatter(np.array([[0.0002, 0.9998]]), "weights")(0.0002)
    ('-0.46', '12.00', '.0002')
    """
    finite = values[np.isfinite(values)]
    if kind == "weights":
        small = finite[finite > 0]
        digits = 4 if small.size and small.min() < 0.0005 else 3
        return lambda value: _share(value, digits)
    if not (finite % 1).any():
        return lambda value: _signed(value, 0)
    digits = _decimals(float(np.abs(finite).max()))
    return lambda value: _signed(value, digits)


def _share(value: float, digits: int) -> str:
    if value == 0:
        return "·"
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if text.startswith("0.") else text.rstrip("0").rstrip(".")


def _signed(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return HIDDEN
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text  # no "-0.00"


def _decimals(largest: float) -> int:
    """Two, or so many more that the largest number has two digits, up to five."""
    return min(5, max(2, 1 - math.floor(math.log10(largest)))) if largest else 0


_LONGEST_LABEL = 12
_MOST_ROWS, _SHOWN_ROWS = 12, 6
"""Lines of a matrix that is shown whole, and of one with more."""
_SUM = 6
_LEAST_COLUMN = 2
"""Cells of a column at least: a digit and a space."""
_BOLD, _DIM = Style(bold=True), Style(dim=True)


@dataclass(frozen=True)
class Block:
    """A matrix that is drawn: lines of `width` cells each."""

    width: int
    lines: list[Line]


def _caption(matrix: Matrix) -> tuple[str, str]:
    """The name of a matrix, and its shape in symbols and in numbers."""
    symbols = " × ".join(printable(axis) for axis in matrix.axes)
    numbers = " × ".join(str(size) for size in matrix.values.shape)
    return printable(matrix.name), numbers if symbols == numbers else f"{symbols} = {numbers}"


def _fit_label(label: str) -> str:
    """A label safe to print, cut where it is very long."""
    safe = token_label(label)
    return fit(safe, _LONGEST_LABEL).rstrip() if cell_len(safe) > _LONGEST_LABEL else safe


def block(matrix: Matrix, brush: Brush, scale: tuple[float, float], room: int, *, labelled: bool) -> Block:
    """Draw a matrix in at most `room` cells; what does not fit is left out, with "…" in its place.

    Args:
        scale: the lowest and the highest value of the colours.
        labelled: whether row labels stand before it.
    """
    sums_right, sums_below = matrix.sums == "rows", matrix.sums == "columns"
    labels, down = [*map(_fit_label, matrix.rows)], _kept_rows(len(matrix.rows))
    gutter = widest((*labels, *["sum"] * sums_below)) + 1 if labelled else 0
    count, most = len(matrix.columns), room // _LEAST_COLUMN + 1
    may_fit = list(range(count)) if count <= most else [*range(most), count - 1]
    columns, values = [_fit_label(matrix.columns[i]) for i in may_fit], matrix.values[:, may_fit]
    write = formatter(matrix.values, matrix.kind)
    texts = {row: [write(value) for value in values[row].tolist()] for row in down if row is not None}
    widths = [
        max(cell_len(label), *map(len, cells)) + 1 for label, *cells in zip(columns, *texts.values(), strict=True)
    ]
    if all(label.isdecimal() for label in columns):
        widths = [max(widths)] * len(widths)
    across = kept_columns(widths, room - gutter - _SUM * sums_right)
    painted = levels(_colored(matrix, values), *scale).tolist()

    def lead(label: str) -> str:
        return fit(label, gutter - 1, "right") + " " if gutter else ""

    def beside(label: str, words: Sequence[str], total: str = "") -> Line:
        cells = (" …" if i is None else " " * (widths[i] - cell_len(words[i])) + words[i] for i in across)
        return [Segment(lead(label) + "".join(cells) + total, _DIM)]

    name, shape = _caption(matrix)
    lines: list[Line] = [[Segment(name, _BOLD), Segment(f"  {shape}", _DIM)]]
    lines.append(beside("", columns, "sum".rjust(_SUM) if sums_right else ""))
    for row in down:
        if row is None:
            lines.append([Segment(" " * gutter + "⋮".rjust(widths[0]), _DIM)])
            continue
        words = ["…" if at is None else texts[row][at] for at in across]
        colors = [NO_VALUE if at is None else painted[row][at] for at in across]
        kept = [_GAP if at is None else widths[at] for at in across]
        lines.append(labelled_row(lead(labels[row]), words, colors, kept, brush, faint=(HIDDEN, "·", "…")))
        if sums_right:
            lines[-1].append(Segment(f"{matrix.values[row].sum(dtype=np.float64):{_SUM}.2f}", _DIM))
    if sums_below:
        lines.append(beside("sum", [f"{total:.2f}" for total in values.sum(axis=0, dtype=np.float64).tolist()]))
    width = max(Segment.get_line_length(line) for line in lines)
    return Block(width, [Segment.adjust_line_length(line, width) for line in lines])


def _colored(matrix: Matrix, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Without what has no colour."""
    if matrix.kind == "mask":
        return np.full_like(values, np.nan)
    return np.where(values == 0 if matrix.kind == "weights" else ~np.isfinite(values), np.nan, values)


_BETWEEN = 3
_NARROWEST = 5  # " .123"
_HEAD_NUMBERS = re.compile("[₀-₉]|⁽[⁰¹²³⁴-⁹]+⁾")


@dataclass(frozen=True)
class Shelves:
    """Matrices from left to right, then downwards; those of several heads stay together where they can.

    One with the same rows as its left neighbour shares its labels. Weights that are too many for numbers are a map.

    Args:
        furthest: the distance from 0 at which signed colours end.
    """

    matrices: Sequence[Matrix]
    furthest: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shelf = _Shelf(options.max_width)
        for _, heads in groupby(self.matrices, lambda one: _HEAD_NUMBERS.sub("", one.name)):
            group = list(heads)
            if not self._fits(console, group, shelf) and self._fits(console, group, _Shelf(options.max_width)):
                yield from shelf.emptied()
            for matrix in group:
                if _is_map(matrix, options.max_width):
                    yield from shelf.emptied()
                    yield from _map(matrix)
                elif not self._takes(console, matrix, shelf):
                    yield from shelf.emptied()
                    self._takes(console, matrix, shelf)
        yield from shelf.emptied(last=True)

    def _fits(self, console: Console, group: Sequence[Matrix], shelf: "_Shelf") -> bool:
        """Whether a whole group has room behind what stands on a shelf."""
        trial = _Shelf(shelf.width, list(shelf.blocks), shelf.last)
        return all(self._takes(console, matrix, trial) for matrix in group)

    def _takes(self, console: Console, matrix: Matrix, shelf: "_Shelf") -> bool:
        """Put a matrix at the end of a shelf, if there is room; one that stands alone is cropped to the width."""
        taken = sum(block.width + _BETWEEN for block in shelf.blocks)
        if shelf.blocks and taken + len(matrix.columns) * _LEAST_COLUMN > shelf.width:
            return False  # not drawn for nothing
        weights = matrix.kind == "weights"
        brush = brush_for(console, WEIGHTS if weights else SIGNED)
        scale = (0.0, 1.0) if weights else (-self.furthest, self.furthest)
        room = 10**6 if shelf.blocks else shelf.width
        shares = shelf.last is not None and matrix.rows == shelf.last.rows and matrix.sums != "columns"
        drawn = block(matrix, brush, scale, room, labelled=not shares)
        if shelf.blocks and taken + drawn.width > shelf.width:
            return False
        shelf.blocks.append(drawn)
        shelf.last = matrix
        return True


@dataclass
class _Shelf:
    """Blocks beside each other, at most `width` cells; `last` is the matrix of the last one."""

    width: int
    blocks: list[Block] = field(default_factory=list)
    last: Matrix | None = None

    def emptied(self, *, last: bool = False) -> RenderResult:
        """Draw what stands here, with a line below it unless it is the last."""
        if not self.blocks:
            return
        for lines in zip_longest(*(one.lines for one in self.blocks)):
            for number, (one, line) in enumerate(zip(self.blocks, lines, strict=True)):
                if number:
                    yield Segment(" " * _BETWEEN)
                yield from line if line is not None else [Segment(" " * one.width)]
            yield Segment.line()
        if not last:
            yield Segment.line()
        self.blocks, self.last = [], None


def _is_map(matrix: Matrix, width: int) -> bool:
    """Whether weights are too many for numbers: leaving some out would hide what they say."""
    return matrix.kind == "weights" and (len(matrix.rows) > _MOST_ROWS or len(matrix.columns) * _NARROWEST > width)


def _map(matrix: Matrix) -> RenderResult:
    name, shape = _caption(matrix)
    yield Text.assemble((name, "bold"), (f"  {shape}", "dim"))
    seen = np.where(matrix.values == 0, np.nan, matrix.values)
    rows, columns = (tuple(map(_fit_label, labels)) for labels in (matrix.rows, matrix.columns))
    yield HeatMap(seen, "weight", rows, columns, empty="exactly 0", square=True)


_INDENT = 2

NOTATIONS = {
    "bishop": "Bishop and Bishop 2024: rows are tokens",
    "udl": "Prince 2023 (UDL): columns are tokens",
    "cs224n": "CS224n: rows are tokens",
    "inf721": "INF721: rows are tokens",
}


def _heading(record: Explanation | ShapeTrace) -> Iterator[Text]:
    yield Text(printable(record.title), style="bold")
    yield Text(printable(record.subtitle), style="dim")
    if record.notation is not None:
        yield Text(f"notation of {NOTATIONS[record.notation]}", style="dim")


@dataclass(frozen=True)
class ExplanationView:
    """Every step, then the slips of the lecture that the numbers bring to light."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _heading(self.explanation)
        for number, step in enumerate(self.explanation.steps, 1):
            yield Text()
            yield StepView(step, number)
        if self.explanation.slips:
            yield Text()
            yield Text("What the lecture prints otherwise", style="bold")
        for slip in self.explanation.slips:
            yield _bullet(slip)


@dataclass(frozen=True)
class StepView:
    """One step; with a number before its title where it is one of several."""

    step: Step
    number: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        title = printable(self.step.title)
        yield Text(title if self.number is None else f"{self.number} {title}", style="bold")
        if self.step.formula:
            yield _indented(Text(printable(self.step.formula), style="cyan"))
        if self.step.matrices:
            furthest = _furthest(self.step.matrices)
            yield _indented(Shelves(self.step.matrices, furthest))
            yield from self._legend(console, options.max_width - _INDENT, furthest)
        if self.step.measures:
            yield _indented(_measures(self.step.measures))
        for line in self.step.note.splitlines():
            yield _indented(Text(printable(line), style="dim"))

    def _legend(self, console: Console, width: int, furthest: float) -> RenderResult:
        """The scales of the colours, and what stands for no number; nothing where numbers alone say all, and of maps,
        which have their own."""
        parts: list[Line] = []
        numbers = [matrix for matrix in self.step.matrices if not _is_map(matrix, width)]
        kinds = {matrix.kind for matrix in numbers}
        if has_colors(console) and "signed" in kinds:
            parts.append(scale_bar(f"{-furthest:.3g}", f"{furthest:.3g}", brush_for(console, SIGNED)))
        if has_colors(console) and "weights" in kinds:
            parts.append([*scale_bar("0", "1", brush_for(console, WEIGHTS)), Segment(" weight", _DIM)])
        if any(np.isneginf(matrix.values).any() for matrix in numbers):
            parts.append([Segment(f"{HIDDEN} hidden by the mask", _DIM)])
        if any(matrix.kind == "weights" and (matrix.values == 0).any() for matrix in numbers):
            parts.append([Segment("· exactly 0", _DIM)])
        for number, part in enumerate(parts):
            yield Segment(" " * (_INDENT if number == 0 else 3))
            yield from part
        if parts:
            yield Segment.line()


def _bullet(text: str) -> Padding:
    """A remark of a list."""
    grid = Grid.grid(padding=(0, 1))
    grid.add_row(Text("·"), Text(printable(text)))
    return Padding(grid, (0, 0, 0, _INDENT))


def explanation_table(explanation: Explanation) -> CsvTable:
    """Every number of every matrix, and every measure, a line each; −∞ is "-inf"."""
    return CsvTable(("step", "title", "matrix", "row", "column", "value"), _lines(explanation))


def _lines(explanation: Explanation) -> Iterator[Sequence[Any]]:
    for number, step in enumerate(explanation.steps, 1):
        for matrix in step.matrices:
            for row, values in zip(matrix.rows, matrix.values, strict=True):
                for column, value in zip(matrix.columns, values, strict=True):
                    yield number, step.title, matrix.name, row, column, str(value)
        for measure in step.measures:
            yield number, step.title, measure.name, None, None, measure.value


def _indented(what: Any) -> Padding:
    return Padding(what, (0, 0, 0, _INDENT))


def _furthest(matrices: Sequence[Matrix]) -> float:
    """The largest distance from 0 among signed numbers."""
    signed = [np.abs(m.values[np.isfinite(m.values)]) for m in matrices if m.kind == "signed"]
    return max((float(values.max(initial=0.0)) for values in signed), default=0.0)


def _measures(measures: Sequence[Measure]) -> Grid:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    for one in measures:
        grid.add_row(Text(printable(one.name)), Text(f"{one.value:.3g}", "bold"), Text(printable(one.meaning), "dim"))
    return grid


@dataclass(frozen=True)
class ShapesView:
    """A tensor a line, in the order in which they are computed."""

    trace: ShapeTrace

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _heading(self.trace)
        yield Text()
        grid = Grid.grid(padding=(0, 2))
        for justify in ("left", "left", "right", "left"):
            grid.add_column(justify=justify, no_wrap=justify == "right")
        grid.add_row(*(Text(name, "dim") for name in ("tensor", "axes", "shape", "formula")))
        for one in self.trace.tensors:
            grid.add_row(
                Text(printable(one.name), "bold"),
                Text(f"({', '.join(one.axes)})"),
                Text(f"({', '.join(map(str, one.shape))})", "bold"),
                Text(printable(one.formula), "cyan"),
            )
        yield grid
        yield Text()
        for note in self.trace.notes:
            yield _bullet(note)


def shapes_table(trace: ShapeTrace) -> CsvTable:
    """The same as columns; axes and sizes of one tensor are separated by " × "."""
    return CsvTable(
        ("tensor", "axes", "shape", "formula"),
        ((one.name, " × ".join(one.axes), " × ".join(map(str, one.shape)), one.formula) for one in trace.tensors),
    )


@dataclass(frozen=True)
class PositionExplanationView:
    """A block a lecture, the chosen one marked; then the steps."""

    record: PositionExplanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("How the lectures write it", style="bold")
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column()
        for one in self.record.spellings:
            chosen = one.notation is not None and one.notation == self.record.explanation.notation
            grid.add_row(Text(("▸ " if chosen else "  ") + one.lecture, "bold" if chosen else ""), _spelled(one))
        yield Padding(grid, (0, 0, 1, 0))
        yield ExplanationView(self.record.explanation)


def _spelled(one: Spelling) -> Text:
    lines = one.formulas or ("no formula",)
    text = Text("\n").join([Text(line, "cyan" if one.formulas else "dim") for line in lines])
    return text.append("\n").append(one.joins, "cyan").append(f"   {one.letters}", "dim")
