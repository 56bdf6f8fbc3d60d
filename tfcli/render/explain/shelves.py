"""Matrices side by side as long as the width allows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from tfcli.records.explain import Matrix
from tfcli.render.brush import brush_for
from tfcli.render.colors import SIGNED, WEIGHTS
from tfcli.render.explain.grid import MOST_ROWS, Block, block, caption, fit_label, least_width, row_labels
from tfcli.render.heatmap import HeatMap

_GAP = 3
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
                if is_map(matrix, options.max_width):
                    yield from shelf.emptied()
                    yield from _map(matrix)
                elif not shelf.take(self._block(console, matrix, shelf), matrix):
                    yield from shelf.emptied()
                    shelf.take(self._block(console, matrix, shelf), matrix)
        yield from shelf.emptied(last=True)

    def _fits(self, console: Console, group: Sequence[Matrix], shelf: "_Shelf") -> bool:
        """Whether a whole group has room behind what stands on a shelf."""
        trial = _Shelf(shelf.width, list(shelf.blocks), shelf.last)
        return all(trial.take(self._block(console, matrix, trial), matrix) for matrix in group)

    def _block(self, console: Console, matrix: Matrix, shelf: "_Shelf") -> Block:
        """Cropped to the width only where it stands alone."""
        weights = matrix.kind == "weights"
        brush = brush_for(console, WEIGHTS if weights else SIGNED)
        scale = (0.0, 1.0) if weights else (-self.furthest, self.furthest)
        if shelf.blocks and least_width(matrix) > shelf.width:
            return Block(least_width(matrix), [])  # too wide to stand beside another: not drawn for nothing
        room = 10**6 if shelf.blocks else shelf.width
        return block(matrix, brush, scale, room, labelled=not shelf.shares_labels(matrix))


@dataclass
class _Shelf:
    """Blocks beside each other, at most `width` cells; `last` is the matrix of the last one."""

    width: int
    blocks: list[Block] = field(default_factory=list)
    last: Matrix | None = None

    def shares_labels(self, matrix: Matrix) -> bool:
        return self.last is not None and matrix.rows == self.last.rows and matrix.sums != "columns"

    def take(self, one: Block, matrix: Matrix) -> bool:
        """Put a block at the end, if there is room."""
        taken = sum(block.width + _GAP for block in self.blocks)
        if self.blocks and taken + one.width > self.width:
            return False
        self.blocks.append(one)
        self.last = matrix
        return True

    def emptied(self, *, last: bool = False) -> RenderResult:
        """Draw what stands here, with a line below it unless it is the last."""
        if not self.blocks:
            return
        for lines in zip_longest(*(one.lines for one in self.blocks)):
            for number, (one, line) in enumerate(zip(self.blocks, lines, strict=True)):
                if number:
                    yield Segment(" " * _GAP)
                yield from line if line is not None else [Segment(" " * one.width)]
            yield Segment.line()
        if not last:
            yield Segment.line()
        self.blocks, self.last = [], None


def is_map(matrix: Matrix, width: int) -> bool:
    """Whether weights are too many for numbers: leaving some out would hide what they say."""
    return matrix.kind == "weights" and (len(matrix.rows) > MOST_ROWS or len(matrix.columns) * _NARROWEST > width)


def _map(matrix: Matrix) -> RenderResult:
    name, shape = caption(matrix)
    yield Text.assemble((name, "bold"), (f"  {shape}", "dim"))
    seen = np.where(matrix.values == 0, np.nan, matrix.values)
    columns = tuple(fit_label(label) for label in matrix.columns)
    yield HeatMap(seen, "weight", row_labels(matrix), columns, empty="exactly 0", square=True)
