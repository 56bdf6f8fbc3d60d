"""An explanation step by step: title, formula, the matrices with their shapes, what was measured, a few words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table as Grid
from rich.text import Text

from tfcli.records.explain import Explanation, Matrix, Measure, Step
from tfcli.render.brush import brush_for, has_colors
from tfcli.render.cells import Line, scale_bar
from tfcli.render.colors import SIGNED, WEIGHTS
from tfcli.render.explain.numbers import HIDDEN
from tfcli.render.explain.shelves import Shelves, is_map
from tfcli.render.safe import printable
from tfcli.render.table_csv import Table

_INDENT = 2
_DIM = Style(dim=True)

NOTATIONS = {
    "bishop": "Bishop and Bishop 2024: rows are tokens",
    "udl": "Prince 2023 (UDL): columns are tokens",
    "cs224n": "CS224n: rows are tokens",
    "inf721": "INF721: rows are tokens",
}


@dataclass(frozen=True)
class ExplanationView:
    """Every step, then the slips of the lecture that the numbers bring to light."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(printable(self.explanation.title), style="bold")
        yield Text(printable(self.explanation.subtitle), style="dim")
        if self.explanation.notation is not None:
            yield Text(f"notation of {NOTATIONS[self.explanation.notation]}", style="dim")
        for number, step in enumerate(self.explanation.steps, 1):
            yield Text()
            yield StepView(step, number)
        if self.explanation.slips:
            yield Text()
            yield Text("What the lecture prints otherwise", style="bold")
        for slip in self.explanation.slips:
            yield bullet(slip)


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
        numbers = [matrix for matrix in self.step.matrices if not is_map(matrix, width)]
        kinds = {matrix.kind for matrix in numbers}
        if has_colors(console) and "signed" in kinds:
            parts.append(scale_bar(f"{-furthest:.3g}", f"{furthest:.3g}", brush_for(console, SIGNED)))
        if has_colors(console) and "weights" in kinds:
            parts.append([*scale_bar("0", "1", brush_for(console, WEIGHTS)), Segment(" weight", _DIM)])
        parts += [[Segment(words, _DIM)] for words in _signs(numbers)]
        for number, part in enumerate(parts):
            yield Segment(" " * (_INDENT if number == 0 else 3))
            yield from part
        if parts:
            yield Segment.line()


def bullet(text: str) -> Padding:
    """A remark of a list."""
    grid = Grid.grid(padding=(0, 1))
    grid.add_row(Text("·"), Text(printable(text)))
    return Padding(grid, (0, 0, 0, _INDENT))


def explanation_table(explanation: Explanation) -> Table:
    """Every number of every matrix, and every measure, a line each; −∞ is "-inf"."""
    return Table(("step", "title", "matrix", "row", "column", "value"), _lines(explanation))


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


def _signs(matrices: Sequence[Matrix]) -> Iterator[str]:
    if any(np.isneginf(matrix.values).any() for matrix in matrices):
        yield f"{HIDDEN} hidden by the mask"
    if any(matrix.kind == "weights" and (matrix.values == 0).any() for matrix in matrices):
        yield "· exactly 0"


def _measures(measures: Sequence[Measure]) -> Grid:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    for one in measures:
        grid.add_row(Text(printable(one.name)), Text(f"{one.value:.3g}", "bold"), Text(printable(one.meaning), "dim"))
    return grid
