"""A matrix as a block of lines: its name and shape, labels, and numbers on colour."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tfcli.records.explain import Matrix
from tfcli.render.brush import Brush
from tfcli.render.cells import Line, labelled_row
from tfcli.render.colors import NO_VALUE, levels
from tfcli.render.explain.crop import GAP, Kept, kept_columns, kept_rows
from tfcli.render.explain.numbers import HIDDEN, formatter
from tfcli.render.safe import fit, printable, token_label, widest

_LONGEST_LABEL = 12
MOST_ROWS = 12
"""Lines of a matrix that is shown whole."""
_SHOWN_ROWS = 6
"""Of a matrix with more."""
_SUM = 6
_NARROWEST = 2
"""Cells of a column at least: a digit and a space."""
_BOLD, _DIM = Style(bold=True), Style(dim=True)


@dataclass(frozen=True)
class Block:
    """Lines of `width` cells each."""

    width: int
    lines: list[Line]


def caption(matrix: Matrix) -> tuple[str, str]:
    """The name of a matrix, and its shape in symbols and in numbers."""
    symbols = " × ".join(printable(axis) for axis in matrix.axes)
    numbers = " × ".join(str(size) for size in matrix.values.shape)
    return printable(matrix.name), numbers if symbols == numbers else f"{symbols} = {numbers}"


def row_labels(matrix: Matrix) -> tuple[str, ...]:
    """Its row labels as they are printed."""
    return tuple(fit_label(label) for label in matrix.rows)


def fit_label(label: str) -> str:
    """A label safe to print, cut where it is very long."""
    safe = token_label(label)
    return fit(safe, _LONGEST_LABEL).rstrip() if cell_len(safe) > _LONGEST_LABEL else safe


def block(matrix: Matrix, brush: Brush, scale: tuple[float, float], room: int, *, labelled: bool = True) -> Block:
    """Draw a matrix in at most `room` cells; what does not fit is left out, with "…" in its place.

    Args:
        scale: the lowest and the highest value of the colours.
        labelled: whether row labels stand before it.
    """
    return _Grid(matrix, brush, scale, labelled).draw(room)


def least_width(matrix: Matrix) -> int:
    """Cells that a matrix takes at least, uncropped."""
    return len(matrix.columns) * _NARROWEST


def _candidates(columns: int, room: int) -> list[int]:
    """The columns that could be shown: all, or the first that may fit and the last one."""
    first = room // _NARROWEST + 1
    return list(range(columns)) if columns <= first else [*range(first), columns - 1]


@dataclass(frozen=True)
class _Grid:
    matrix: Matrix
    brush: Brush
    scale: tuple[float, float]
    labelled: bool

    def draw(self, room: int) -> Block:
        labels, down = row_labels(self.matrix), kept_rows(len(self.matrix.rows), MOST_ROWS, _SHOWN_ROWS)
        gutter = widest((*labels, *(("sum",) if self.matrix.sums == "columns" else ()))) + 1 if self.labelled else 0
        tail = _SUM if self.matrix.sums == "rows" else 0
        candidates = _candidates(len(self.matrix.columns), room)
        columns = tuple(fit_label(self.matrix.columns[index]) for index in candidates)
        values = self.matrix.values[:, candidates]
        write = formatter(self.matrix.values, self.matrix.kind)
        texts = {row: [write(value) for value in values[row].tolist()] for row in down if row is not None}
        widths = self._widths(columns, list(texts.values()))
        across = kept_columns(widths, room - gutter - tail)
        painted = levels(self._colored(values), *self.scale).tolist()
        lines: list[Line] = [self._caption(), self._header(columns, widths, across, gutter)]
        for row in down:
            if row is None:
                lines.append([Segment(" " * gutter + "⋮".rjust(widths[0]), _DIM)])
                continue
            words = ["…" if at is None else texts[row][at] for at in across]
            colors = [NO_VALUE if at is None else painted[row][at] for at in across]
            across_widths = [GAP if at is None else widths[at] for at in across]
            label = fit(labels[row], gutter - 1, "right") + " " if gutter else ""
            line = labelled_row(label, words, colors, across_widths, self.brush, faint=(HIDDEN, "·", "…"))
            if tail:
                line.append(Segment(f"{self._sum(self.matrix.values[row]):{_SUM}.2f}", _DIM))
            lines.append(line)
        if self.matrix.sums == "columns":
            lines.append(self._column_sums(values, widths, across, gutter))
        width = max(Segment.get_line_length(line) for line in lines)
        return Block(width, [Segment.adjust_line_length(line, width) for line in lines])

    def _widths(self, columns: tuple[str, ...], texts: list[list[str]]) -> list[int]:
        """Numbered columns are all as wide as the widest of them; those of tokens as each needs."""
        widths = [max(cell_len(label), *map(len, cells)) + 1 for label, *cells in zip(columns, *texts, strict=True)]
        return [max(widths)] * len(widths) if all(label.isdecimal() for label in columns) else widths

    def _colored(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Without what has no colour."""
        if self.matrix.kind == "mask":
            return np.full_like(values, np.nan)
        hidden = values == 0 if self.matrix.kind == "weights" else ~np.isfinite(values)
        return np.where(hidden, np.nan, values)

    def _caption(self) -> Line:
        name, shape = caption(self.matrix)
        return [Segment(name, _BOLD), Segment(f"  {shape}", _DIM)]

    def _header(self, columns: tuple[str, ...], widths: list[int], across: Kept, gutter: int) -> Line:
        cells = "".join("…".rjust(GAP) if i is None else fit(columns[i], widths[i], "right") for i in across)
        total = "sum".rjust(_SUM) if self.matrix.sums == "rows" else ""
        return [Segment(" " * gutter + cells + total, _DIM)]

    def _column_sums(self, values: NDArray[np.float32], widths: list[int], across: Kept, gutter: int) -> Line:
        cells = ("…".rjust(GAP) if i is None else f"{self._sum(values[:, i]):.2f}".rjust(widths[i]) for i in across)
        return [Segment((fit("sum", gutter - 1, "right") + " " if gutter else "") + "".join(cells), _DIM)]

    @staticmethod
    def _sum(values: NDArray[np.float32]) -> float:
        return float(values.sum(dtype=np.float64))
