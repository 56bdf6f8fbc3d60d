"""Matrices side by side as long as the width allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from tfcli.records.explain import Matrix
from tfcli.render.brush import brush_for
from tfcli.render.colors import SIGNED, WEIGHTS
from tfcli.render.explain.grid import MOST_ROWS, Block, block, caption, fit_label, row_labels
from tfcli.render.heatmap import HeatMap

_GAP = 3

Scale = tuple[float, float]


@dataclass(frozen=True)
class Shelves:
    """Matrices from left to right, then downwards. One with the same rows as its left neighbour shares its labels.

    Args:
        furthest: the distance from 0 at which signed colours end.
    """

    matrices: Sequence[Matrix]
    furthest: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        signed, weights = brush_for(console, SIGNED), brush_for(console, WEIGHTS)
        shelf: list[Block] = []
        left = options.max_width
        for number, matrix in enumerate(self.matrices):
            if _is_map(matrix, options.max_width):
                yield from _drawn(shelf)
                shelf = []
                yield from _map(matrix)
                continue
            brush, scale = (weights, (0.0, 1.0)) if matrix.kind == "weights" else (signed, self._scale)
            if shelf:
                shares = matrix.rows == self.matrices[number - 1].rows and matrix.sums != "columns"
                beside = block(matrix, brush, scale, 10**6, labelled=not shares)
                if beside.width + _GAP <= left:
                    shelf.append(beside)
                    left -= beside.width + _GAP
                    continue
                yield from _drawn(shelf)
                yield Segment.line()
            alone = block(matrix, brush, scale, options.max_width)
            shelf, left = [alone], options.max_width - alone.width
        yield from _drawn(shelf)

    @property
    def _scale(self) -> Scale:
        return -self.furthest, self.furthest


def _is_map(matrix: Matrix, width: int) -> bool:
    """Whether weights are too many for numbers, of which leaving some out would say little."""
    return matrix.kind == "weights" and (len(matrix.rows) > MOST_ROWS or len(matrix.columns) * 5 > width)


def _map(matrix: Matrix) -> RenderResult:
    name, shape = caption(matrix)
    yield Text.assemble((name, "bold"), (f"  {shape}", "dim"))
    hidden = np.where(matrix.values == 0, np.nan, matrix.values)
    columns = tuple(fit_label(label) for label in matrix.columns)
    yield HeatMap(hidden, "weight", row_labels(matrix), columns, empty="exactly 0", square=True)


def _drawn(shelf: list[Block]) -> RenderResult:
    for lines in zip_longest(*(one.lines for one in shelf)):
        for number, (one, line) in enumerate(zip(shelf, lines, strict=True)):
            if number:
                yield Segment(" " * _GAP)
            yield from line if line is not None else [Segment(" " * one.width)]
        yield Segment.line()
