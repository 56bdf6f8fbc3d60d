"""An explanation drawn step by step: matrices with their shapes beside each other, formulas, and what was measured."""

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import accumulate, groupby, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

from tfcli.draw import Stepwise, View
from tfcli.draw.colors import NO_VALUE, NO_VALUE_MARK, SIGNED, WEIGHTS, Brush, brush_for, has_colors, levels
from tfcli.draw.heatmap import HeatMap, Line, labelled_row, scale_bar
from tfcli.draw.numbers import residue
from tfcli.draw.safe import fit, printable, shortened, token_label, widest
from tfcli.draw.tables import CsvTable, columns, dim, heading
from tfcli.inspection.explain import (
    HOLE,
    Explanation,
    Matrix,
    MatrixKind,
    Measure,
    PositionExplanation,
    ShapeTrace,
    Step,
)

Kept = list[int | None]  # indices in their order; None: a gap
_GAP, HIDDEN = 2, "−∞"  # cells of the "…" that stands for columns left out; what a mask hides


def kept_columns(widths: Sequence[int], room: int) -> Kept:
    """All columns if they fit; else as many of the first as do, a gap, and the last one.

    >>> kept_columns([6, 6, 6, 6], 24), kept_columns([6, 6, 6, 6], 20)
    ([0, 1, 2, 3], [0, 1, None, 3])
    """
    if sum(widths) <= room:
        return list(range(len(widths)))
    first = sum(taken <= room - widths[-1] - _GAP for taken in accumulate(widths[:-2]))
    return [*range(max(1, first)), None, len(widths) - 1]


def formatter(values: NDArray[np.float32], kind: MatrixKind) -> Callable[[float], str]:
    """How a matrix writes its numbers: whole ones without decimals, shares of 1 without the leading 0 and "–" where
    they are exactly 0, others with two decimals, or with more where all of them are small."""
    finite, digits = values[np.isfinite(values)], 0
    if kind == "weights":
        return partial(_share, digits=4 if finite.min(initial=1.0, where=finite > 0) < 0.0005 else 3)
    if (finite % 1).any():  # two, or so many more that the largest number has two digits, up to five
        digits = min(5, max(2, 1 - math.floor(math.log10(np.abs(finite).max()))))
    return partial(_signed, digits=digits)


def _share(value: float, digits: int) -> str:
    if value == 0:
        return NO_VALUE_MARK
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if text.startswith("0.") else text.rstrip("0").rstrip(".")


def _signed(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return HIDDEN
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text  # no "-0.00"


_LONGEST_LABEL, _SUM, _LEAST_COLUMN = 12, 6, 2  # cells; the last: a digit and a space
_MOST_ROWS, _SHOWN_ROWS = 12, 6  # lines of a matrix that is shown whole, and of one with more
_BOLD, _DIM = Style(bold=True), Style(dim=True)


def _caption(matrix: Matrix) -> tuple[str, str]:
    """The name of a matrix, and its shape in symbols and in numbers."""
    symbols = " × ".join(printable(axis) for axis in matrix.axes)
    numbers = " × ".join(str(size) for size in matrix.values.shape)
    return printable(matrix.name), f"  {numbers}" if symbols == numbers else f"  {symbols} = {numbers}"


def _short_labels(labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(shortened(token_label(label), _LONGEST_LABEL).rstrip() for label in labels)


def _drawn(matrix: Matrix, brush: Brush, furthest: float, room: int, *, labelled: bool) -> list[Line]:
    """A matrix in at most `room` cells, its lines as long as each other; "…" stands for what does not fit."""
    sums_right, sums_below = matrix.sums == "rows", matrix.sums == "columns"
    labels, (rows, count) = _short_labels(matrix.rows), matrix.values.shape
    down: Kept = list(range(rows)) if rows <= _MOST_ROWS else [*range(_SHOWN_ROWS - 2), None, rows - 1]
    gutter = widest((*labels, *["sum"] * sums_below)) + 1 if labelled else 0
    may_fit = [*range(min(room // _LEAST_COLUMN + 1, count - 1)), count - 1]
    heads, values = _short_labels([matrix.columns[i] for i in may_fit]), matrix.values[:, may_fit]
    write = (lambda _: HOLE) if matrix.holes else formatter(matrix.values, matrix.kind)
    texts = {row: [write(value) for value in values[row].tolist()] for row in down if row is not None}
    below = zip(heads, *texts.values(), *[["0.00"] * len(heads)] * sums_below, strict=True)
    widths = [max(map(cell_len, column)) + 1 for column in below]
    if all(label.isdecimal() for label in heads):
        widths = [max(widths)] * len(widths)
    across = kept_columns(widths, room - gutter - _SUM * sums_right)
    scale = (0.0, 1.0) if matrix.kind == "weights" else (-furthest, furthest)
    colorless = values == 0 if matrix.kind == "weights" else ~np.isfinite(values) | (matrix.kind == "mask")
    painted = levels(np.where(colorless, np.nan, values), *scale).tolist()

    def lead(label: str) -> str:
        return fit(label, gutter - 1, "right") + " " if gutter else ""

    def beside(label: str, words: Sequence[str], total: str = "") -> Line:
        cells = (" …" if at is None else " " * (widths[at] - cell_len(words[at])) + words[at] for at in across)
        return [Segment(lead(label) + "".join(cells) + total, _DIM)]

    name, shape = _caption(matrix)
    head, gap = beside("", heads, "sum".rjust(_SUM) if sums_right else ""), ("…", NO_VALUE, _GAP)
    lines: list[Line] = [[Segment(name, _BOLD), Segment(shape, _DIM)], head]
    for row in down:
        if row is None:
            lines.append([Segment(" " * gutter + "⋮".rjust(widths[0]), _DIM)])
            continue
        cells = [gap if at is None else (texts[row][at], painted[row][at], widths[at]) for at in across]
        words, colors, kept = zip(*cells, strict=True)
        lines.append(labelled_row(lead(labels[row]), words, colors, kept, brush, faint=(HIDDEN, NO_VALUE_MARK, "…")))
        if sums_right:
            lines[-1].append(Segment(f"{matrix.values[row].sum(dtype=np.float64):{_SUM}.2f}", _DIM))
    if sums_below:
        lines.append(beside("sum", [f"{total:.2f}" for total in values.sum(axis=0, dtype=np.float64).tolist()]))
    return Segment.set_shape(lines, Segment.get_shape(lines)[0])


_BETWEEN, _NARROWEST, _INDENT = 3, 5, 2  # cells; " .123" is the narrowest share
_indented = partial(Padding, pad=(0, 0, 0, _INDENT))
_HEAD_NUMBERS = re.compile("[₀-₉]|⁽[⁰¹²³⁴-⁹]+⁾")
_Shelf = list[tuple[Matrix, list[Line]]]  # beside each other, as they are drawn


@dataclass(frozen=True)
class Shelves:
    """Matrices from left to right, then downwards; those of several heads stay together where they can. One with the
    rows of its left neighbour shares its labels. Weights that are too many for numbers are a map."""

    matrices: Sequence[Matrix]
    furthest: float  # from 0, where signed colours end

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.parts(console, options.max_width)

    def parts(self, console: Console, width: int) -> Iterator[RenderableType]:
        """Each shelf and each map on its own, from above."""
        shelf = _Shelf()
        for _, heads in groupby(self.matrices, lambda one: _HEAD_NUMBERS.sub("", one.name)):
            group = list(heads)
            if _is_map(group[0], width):
                yield from _emptied(shelf, gap=True)
                shelf = []
                for matrix in group:
                    caption = Text.assemble(*zip(_caption(matrix), ("bold", "dim"), strict=True))
                    seen = np.where(matrix.values == 0, np.nan, matrix.values)
                    labels = _short_labels(matrix.rows), _short_labels(matrix.columns)
                    drawn = HeatMap(seen, "weight", *labels, empty="exactly 0", square=True, scale=(0.0, 1.0))
                    yield Group(caption, drawn)
                continue
            for part in [group] if self._extended([], group, console, width) else [[one] for one in group]:
                extended = self._extended(shelf, part, console, width)
                if extended is None:
                    yield from _emptied(shelf, gap=True)
                    extended = self._extended([], part, console, width)
                shelf = extended or []
        yield from _emptied(shelf)

    def _extended(self, shelf: _Shelf, group: Sequence[Matrix], console: Console, width: int) -> _Shelf | None:
        """A shelf with a whole group at its end; None: it has no room. The first one on a shelf is cropped to it."""
        for matrix in group:
            taken = sum(Segment.get_line_length(lines[0]) + _BETWEEN for _, lines in shelf)
            if shelf and taken + len(matrix.columns) * _LEAST_COLUMN > width:
                return None  # not drawn for nothing
            brush = brush_for(console, WEIGHTS if matrix.kind == "weights" else SIGNED)
            labelled = not shelf or matrix.rows != shelf[-1][0].rows or matrix.sums == "columns"
            lines = _drawn(matrix, brush, self.furthest, 10**6 if shelf else width, labelled=labelled)
            if shelf and taken + Segment.get_line_length(lines[0]) > width:
                return None
            shelf = [*shelf, (matrix, lines)]
        return shelf


def _emptied(shelf: _Shelf, *, gap: bool = False) -> Iterator[Segments]:
    """Draw the matrices of a shelf, with a blank line after them if there is to be a gap; nothing without matrices."""
    if not shelf:
        return
    height = max(len(lines) for _, lines in shelf)
    blocks = [Segment.set_shape(lines, Segment.get_line_length(lines[0]), height) for _, lines in shelf]
    segments = list[Segment]()
    for line in zip(*blocks, strict=True):
        for number, part in enumerate(line):
            if number > 0:
                segments.append(Segment(" " * _BETWEEN))
            segments.extend(part)
        segments.append(Segment.line())
    if gap:
        segments.append(Segment.line())
    yield Segments(segments)


def _is_map(matrix: Matrix, width: int) -> bool:
    """Whether weights are too many for numbers: leaving some out would hide what they say."""
    is_long = len(matrix.rows) > _MOST_ROWS or len(matrix.columns) * _NARROWEST > width
    return is_long and matrix.kind == "weights" and not matrix.holes


NOTATIONS: dict[str, str] = tomllib.loads((files(__package__) / "notations.toml").read_text("utf-8"))["whose"]


def _heading(record: Explanation | ShapeTrace) -> Iterator[Text]:
    whose = () if record.notation is None else (f"notation of {NOTATIONS[record.notation]}",)
    return heading(printable(record.title), printable(record.subtitle), *whose)


class ExplanationView(Stepwise[Explanation]):
    """Every step, then the slips of the lecture that the numbers bring to light."""

    def parts(self) -> list[RenderableType]:
        """What is explained, on what; the steps, and the slips as another one."""
        scores = _furthest([one for step in self.record.steps for one in step.matrices if one.kind == "scores"])
        steps = [StepView(step, number, scores) for number, step in enumerate(self.record.steps, 1)]
        slips = Group(Text("What the lecture prints otherwise", style="bold"), _bullets(self.record.slips))
        return [Group(*_heading(self.record)), *steps, *[slips] * bool(self.record.slips)]


@dataclass(frozen=True)
class StepView(View[Step]):
    """One step.

    Attributes:
        number: What is written before the title of one of several steps.
        scores: The score furthest from 0 in all steps, where the colours of scores end in each of them.
    """

    number: int | None = None
    scores: float = 0.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        step, title = self.record, printable(self.record.title)
        yield Text(title if self.number is None else f"{self.number} {title}", style="bold")
        if step.formula:
            yield _indented(Text(printable(step.formula), style="cyan"))
        if step.lines:
            yield Text(printable(step.lines, keep_newlines=True), overflow="fold")
        if step.matrices:
            furthest = _furthest([one for one in step.matrices if one.kind in ("signed", "scores")])
            if any(one.kind == "scores" for one in step.matrices):
                furthest = max(furthest, self.scores)
            for shelf in Shelves(step.matrices, furthest).parts(console, options.max_width - _INDENT):
                yield _indented(shelf)
            yield from self._legend(console, options.max_width - _INDENT, furthest)
        if step.measures:
            table = columns("wrw")
            for one in step.measures:
                value = Text(measured_value(one), "bold")
                table.add_row(Text(printable(one.name)), value, Text(printable(one.meaning), "dim"))
            yield _indented(table)
        for line in dim(*map(printable, step.note.splitlines())):
            yield _indented(line)

    def _legend(self, console: Console, width: int, furthest: float) -> RenderResult:
        """The scales of the colours, and what stands for no number, unless numbers say all; maps have their own."""
        parts, numbers = list[Line](), [one for one in self.record.matrices if not (one.holes or _is_map(one, width))]
        kinds = {matrix.kind for matrix in numbers}
        if has_colors(console) and kinds & {"signed", "scores"}:
            parts.append(scale_bar(f"{-furthest:.3g}", f"{furthest:.3g}", brush_for(console, SIGNED)))
        if has_colors(console) and "weights" in kinds:
            parts.append([*scale_bar("0", "1", brush_for(console, WEIGHTS)), Segment(" weight", _DIM)])
        if any(np.isneginf(matrix.values).any() for matrix in numbers):
            parts.append([Segment(f"{HIDDEN} hidden by the mask", _DIM)])
        if any(matrix.kind == "weights" and (matrix.values == 0).any() for matrix in numbers):
            parts.append([Segment(f"{NO_VALUE_MARK} exactly 0", _DIM)])
        for number, part in enumerate(parts):
            yield from (Segment(" " * (_INDENT if number == 0 else 3)), *part)
        if parts:
            yield Segment.line()


def _furthest(matrices: Sequence[Matrix]) -> float:
    """The distance from 0 of the number that is furthest from it; 0 without numbers."""
    furthest = 0.0
    for matrix in matrices:
        finite = np.abs(matrix.values[np.isfinite(matrix.values)])
        furthest = max(furthest, float(finite.max(initial=0.0)))
    return furthest


def measured_value(measure: Measure) -> str:
    """The number of a measure in three digits; a hole if an exercise leaves it out."""
    if math.isnan(measure.value):
        return HOLE
    if measure.is_residue:
        return residue(measure.value)
    return f"{measure.value:.3g}"


def _bullets(remarks: Sequence[str]) -> Padding:
    table = columns("lw", gap=1)
    for remark in remarks:
        table.add_row("·", Text(printable(remark)))
    return _indented(table)


def explanation_table(explanation: Explanation) -> CsvTable:
    """Every number of every matrix, and every measure, a line each; −∞ is "-inf"."""

    def lines() -> Iterator[Sequence[Any]]:
        for number, step in enumerate(explanation.steps, 1):
            for matrix in step.matrices:
                for place, value in zip(product(matrix.rows, matrix.columns), matrix.values.flat, strict=True):
                    yield number, step.title, matrix.name, *place, None if matrix.holes else str(value)
            for measure in step.measures:
                yield number, step.title, measure.name, None, None, None if math.isnan(measure.value) else measure.value

    return CsvTable(("step", "title", "matrix", "row", "column", "value"), lines())


_TENSOR = ("tensor", "axes", "shape", "formula")


class ShapesView(View[ShapeTrace]):
    """A tensor a line, in the order in which they are computed."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _heading(self.record)
        yield Text()
        table = columns("wwrw", *_TENSOR)
        for one in self.record.tensors:
            axes, shape = (f"({', '.join(map(str, each))})" for each in (one.axes, one.shape))
            formula = Text(printable(one.formula), "cyan")
            table.add_row(Text(printable(one.name), "bold"), Text(axes), Text(shape, "bold"), formula)
        yield from (table, Text(), _bullets(self.record.notes))


def shapes_table(trace: ShapeTrace) -> CsvTable:
    """The same as columns; axes and sizes of one tensor are separated by " × "."""
    rows = ((one.name, " × ".join(one.axes), " × ".join(map(str, one.shape)), one.formula) for one in trace.tensors)
    return CsvTable(_TENSOR, rows)


class PositionExplanationView(Stepwise[PositionExplanation]):
    """A block a lecture, the chosen one marked; then the steps."""

    def parts(self) -> list[RenderableType]:
        """The lectures side by side as the first step."""
        table = columns("lw")
        for one in self.record.spellings:
            chosen = one.notation is not None and one.notation == self.record.explanation.notation
            formulas = [(f"{line}\n", "cyan") for line in one.formulas] or [("no formula\n", "dim")]
            spelled = Text.assemble(*formulas, (one.joins, "cyan"), (f"   {one.letters}", "dim"))
            table.add_row(Text(("▸ " if chosen else "  ") + one.lecture, "bold" if chosen else ""), spelled)
        head, *steps = ExplanationView(self.record.explanation).parts()
        return [head, Group(Text("How the lectures write it", style="bold"), table), *steps]
