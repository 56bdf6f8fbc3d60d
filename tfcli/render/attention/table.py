"""One head's attention as a table: numbers on colour while they fit, a heat map when they do not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.words import SIDES, labels, row_sums, title, without_masked
from tfcli.render.brush import Brush, brush_for
from tfcli.render.cells import Line, scale_bar
from tfcli.render.colors import WEIGHTS, levels
from tfcli.render.headers import vertical
from tfcli.render.heatmap import HeatMap
from tfcli.render.numbers import weight
from tfcli.render.safe import fit, widest

_NARROWEST = 4  # ".87 "
_SUM = 5
_DIM = Style(dim=True)


@dataclass(frozen=True)
class AttentionTable:
    """Queries down, keys across: one head's weights as numbers while they fit, else as a map."""

    record: AttentionRecord
    layer: int
    head: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        weights = self.record.weights[self.layer, self.head]
        yield Text(title(self.record, self.layer, self.head), style="bold")
        yield Text(f"{SIDES[self.record.kind]}; {row_sums(weights)}", style="dim")
        queries, keys = labels(self.record.query_tokens), labels(self.record.key_tokens)
        gutter = min(widest(queries), max(8, options.max_width // 5)) + 1
        columns = _columns(keys, options.max_width - gutter - _SUM)
        if columns:
            yield from _Numbers(queries, weights, gutter, columns, brush_for(console, WEIGHTS)).draw()
        else:
            yield from _as_map(self.record, queries, keys, weights, options.max_width)


@dataclass(frozen=True)
class _Columns:
    widths: list[int]
    header: list[str]


def _columns(keys: tuple[str, ...], room: int) -> _Columns | None:
    """Wide enough for every label; else narrow, with labels downwards; None when numbers do not fit."""
    across = [max(_NARROWEST, cell_len(key) + 1) for key in keys]
    if sum(across) <= room:
        return _Columns(across, ["".join(fit(key, w, "center") for key, w in zip(keys, across, strict=True))])
    if _NARROWEST * len(keys) <= room:
        return _Columns([_NARROWEST] * len(keys), vertical(keys, _NARROWEST))
    return None


def _as_map(
    record: AttentionRecord,
    queries: tuple[str, ...],
    keys: tuple[str, ...],
    weights: NDArray[np.float32],
    width: int,
) -> RenderResult:
    digits = len(str(max(len(queries), len(keys)) - 1))
    label_width = min(widest(queries), max(8, width // 5) - digits - 1)
    numbered = tuple(f"{fit(label, label_width)} {n:>{digits}}" for n, label in enumerate(queries))
    heat_map = HeatMap(
        without_masked(weights),
        "attention weight",
        empty="exactly 0, masked",
        row_labels=numbered,
        column_labels=keys,
        square=True,
    )
    yield heat_map
    if heat_map.columns_are_numbered(width) and record.kind == "cross":
        names = "  ".join(f"{number} {label}" for number, label in enumerate(keys))
        yield Text(f"keys: {names}", style="dim")


@dataclass(frozen=True)
class _Numbers:
    queries: tuple[str, ...]
    weights: NDArray[np.float32]
    gutter: int
    columns: _Columns
    brush: Brush

    def draw(self) -> RenderResult:
        highest = float(self.weights.max(initial=0.0))
        grid = levels(without_masked(self.weights), 0.0, highest)
        *above, last = self.columns.header
        for header in [*above, last + "sum".rjust(_SUM)]:
            yield Text(" " * self.gutter + header, no_wrap=True, overflow="crop")
        for label, row, row_levels in zip(self.queries, self.weights, grid.tolist(), strict=True):
            yield Segment(fit(label, self.gutter - 1, "right") + " ")
            yield from self._row(row, row_levels)
            yield Segment(f"{float(row.sum(dtype=np.float64)):{_SUM}.2f}\n", _DIM)
        yield from self._legend(highest)

    def _row(self, row: NDArray[np.float32], row_levels: list[int]) -> Line:
        line = []
        for value, level, width in zip(row.tolist(), row_levels, self.columns.widths, strict=True):
            if value == 0.0:
                line.append(Segment(fit("·", width, "center"), _DIM))
            else:
                style = self.brush.readable(level) if self.brush.in_color else None
                line.append(Segment(fit(weight(value), width, "center"), style))
        return line

    def _legend(self, highest: float) -> RenderResult:
        yield Segment(" " * self.gutter)
        if self.brush.in_color:
            yield from scale_bar("0", weight(highest), self.brush)
            yield Segment("  ")
        yield Text(
            "attention weight  ·: exactly 0, masked" if (self.weights == 0.0).any() else "attention weight",
            style="dim",
        )
