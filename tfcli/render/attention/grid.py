"""A matrix of queries and keys in the terminal: numbers on colour while they fit, a heat map when they do not."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.render.attention.matrix import Matrix
from tfcli.render.brush import Brush, brush_for
from tfcli.render.cells import labelled_row, legend, scale_bar
from tfcli.render.colors import SIGNED, WEIGHTS, levels
from tfcli.render.headers import beside, vertical
from tfcli.render.heatmap import HeatMap
from tfcli.render.safe import fit, widest

_SUM = 5
_DIM = Style(dim=True)
_GAP = "│ "
_MOST_NAMES = 200  # keys that are listed where a ruler has no room for labels


@dataclass(frozen=True)
class Columns:
    """How wide the numbers stand, and the lines above them."""

    widths: list[int]
    header: list[str]


@dataclass(frozen=True)
class Grid:
    """Queries down, keys across: numbers while they fit, else a map."""

    matrix: Matrix

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush = brush_for(console, SIGNED if self.matrix.signed else WEIGHTS)
        columns = self.columns(options.max_width)
        if columns is None:
            yield from self._map(options.max_width)
        else:
            yield from self._numbers(columns, self._gutter(options.max_width), brush, options.max_width)

    def columns(self, width: int) -> Columns | None:
        """Wide enough for every label; else narrow, with labels downwards; None when numbers do not fit."""
        room = width - self._gutter(width) - self._margin
        keys, narrowest = self.matrix.keys, self._narrowest
        if narrowest * len(keys) > room:
            return None
        across = [max(narrowest, cell_len(key) + 1) for key in keys]
        if sum(across) <= room:
            labels = [self._joined([fit(key, w, "center") for key, w in zip(keys, across, strict=True)])]
        else:
            across = [narrowest] * len(keys)
            kept = self.matrix.kept
            labels = vertical(keys[kept:], narrowest)
            if kept:
                labels = beside(vertical(keys[:kept], narrowest), labels, narrowest * kept, len(_GAP))
        if self.matrix.cropped:
            numbers = [fit(str(n), w, "center") for n, w in zip(self.matrix.columns, across, strict=True)]
            labels.append(self._joined(numbers))
        return Columns(across, labels)

    def numbers_width(self, most: int) -> int | None:
        """Columns that the numbers take of `most`; None where they do not fit."""
        columns = self.columns(most)
        return None if columns is None else self._gutter(most) + sum(columns.widths) + self._margin

    @property
    def _margin(self) -> int:
        """Beside the numbers: the sums, and the gap behind the first keys."""
        return (_SUM if self.matrix.sums else 0) + (len(_GAP) if self.matrix.kept else 0)

    @cached_property
    def _narrowest(self) -> int:
        number = 6 if self.matrix.signed else 4  # "+.25 " and ".87 "
        return max(number, len(str(max(self.matrix.columns, default=0))) + 1) if self.matrix.cropped else number

    def _row_labels(self, width: int, *, numbered: bool) -> tuple[str, ...]:
        """Labels of queries, cut where they take more than a fifth of the width, with their positions."""
        queries = self.matrix.queries
        if not numbered:
            return queries
        digits = len(str(max(self.matrix.rows, default=0)))
        room = min(widest(queries), max(8, width // 5) - digits - 1)
        return tuple(f"{fit(label, room)} {n:>{digits}}" for n, label in zip(self.matrix.rows, queries, strict=True))

    def _gutter(self, width: int) -> int:
        return min(widest(self._row_labels(width, numbered=self.matrix.cropped)), max(8, width // 5)) + 1

    def _joined(self, cells: list[str]) -> str:
        kept = self.matrix.kept
        return "".join(cells[:kept]) + (" " * len(_GAP) if kept else "") + "".join(cells[kept:])

    def _numbers(self, columns: Columns, gutter: int, brush: Brush, width: int) -> RenderResult:
        matrix = self.matrix
        grid = levels(matrix.values, *matrix.scale)
        *above, last = columns.header
        for header in [*above, last + ("sum".rjust(_SUM) if matrix.sums else "")]:
            yield Text(" " * gutter + header, no_wrap=True, overflow="crop")
        labels = self._row_labels(width, numbered=matrix.cropped)
        for row, label in enumerate(labels):
            texts = ["·" if np.isnan(value) else matrix.text(value) for value in matrix.values[row].tolist()]
            yield from labelled_row(
                fit(label, gutter - 1, "right") + " ",
                texts,
                grid[row].tolist(),
                columns.widths,
                brush,
                align="center",
                faint="·",
                gaps={matrix.kept: _GAP} if matrix.kept else {},
            )
            if matrix.sums:
                yield Segment(f"{matrix.sums[row]:{_SUM}.2f}", _DIM)
            yield Segment.line()
        low, high = matrix.scale
        bar = scale_bar(matrix.text(low) if matrix.signed else "0", matrix.text(high), brush) if brush.in_color else []
        empty = f"  ·: {matrix.empty}" if np.isnan(matrix.values).any() else ""
        yield from legend(bar, matrix.meaning + empty, gutter, width)

    def _map(self, width: int) -> RenderResult:
        matrix = self.matrix
        heat_map = HeatMap(
            matrix.values,
            matrix.meaning,
            empty=matrix.empty,
            row_labels=self._row_labels(width, numbered=True),
            column_labels=matrix.keys,
            column_numbers=matrix.columns,
            signed=matrix.signed,
            square=True,
            kept=min(matrix.kept, width // 3),
        )
        yield heat_map
        if heat_map.columns_are_numbered(width) and not set(matrix.columns) <= self._labelled:
            if len(matrix.keys) > _MOST_NAMES:
                yield Text(
                    f"{len(matrix.keys)} keys; --columns A:B shows a part of them with their labels", style="dim"
                )
                return
            names = "  ".join(f"{number} {label}" for number, label in zip(matrix.columns, matrix.keys, strict=True))
            yield Text(f"keys: {names}", style="dim")

    @property
    def _labelled(self) -> set[int]:
        """Positions of keys that stand at the rows already, where both are of one text."""
        return set(self.matrix.rows) if self.matrix.one_text else set()
