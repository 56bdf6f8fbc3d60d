"""All layers and heads of one kind of attention as thumbnails."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from tfcli.draw.colors import WEIGHTS, Brush, brush_for, levels
from tfcli.draw.heatmap import Line, half_block_lines, max_pool, scale_bar, whole_cell_lines
from tfcli.draw.numbers import plural
from tfcli.draw.safe import fit
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.matrix_view import KIND_NAMES

_SIDE = 16
_GAP = 2

Scale = Literal["all", "each"]
"""Whether the colours of small maps are of one scale for all, so that they can be compared, or of each map's own."""

SCALE_WORDS: dict[Scale, str] = {"all": "one scale for all maps", "each": "each map on its own scale"}
"""What a picture says of it."""


@dataclass(frozen=True)
class AttentionOverview:
    """Layers down, heads across, each at most 16 columns wide; heads that do not fit go to the next line."""

    record: AttentionRecord
    scale: Scale = "all"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        num_layers, num_heads, rows, columns = record.weights.shape
        what = "every layer" if record.names else "every head"
        heads = "" if record.names else f" × {plural(num_heads, 'head')} (H)"
        yield Text(f"Attention weights · {KIND_NAMES[record.kind]} · {what}", style="bold")
        yield Text(f"{plural(num_layers, 'layer')} (L){heads}; {rows} queries down, {columns} keys across", style="dim")
        named = [
            [
                (f"L{layer}" if record.names else f"L{layer} H{head}", record.visible_weights(layer, head))
                for head in range(num_heads)
            ]
            for layer in range(num_layers)
        ]
        rows_of_maps = [[one for [one] in named]] if record.names else named
        yield Thumbnails(tuple(tuple(row) for row in rows_of_maps), self.scale)


@dataclass(frozen=True)
class Thumbnails:
    """Small maps of one shape under their names, a line of them a row; those that do not fit go to the next line.

    All share one colour scale, or each has its own, from 0 to its largest weight. In long
    texts a cell shows the largest weight of its block.

    Shape:
        rows: a name and (T, S) each, NaN where a query may not look
    """

    rows: tuple[tuple[tuple[str, NDArray[np.float32]], ...], ...]
    scale: Scale = "all"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush = brush_for(console, WEIGHTS)
        every = [one for row in self.rows for one in row]
        highest = max(_highest(weights) for _, weights in every)
        rows, columns = every[0][1].shape
        shape = _shape(rows, columns, brush)
        drawn = -(-columns // shape.factor) * shape.growth * shape.cell_width
        width = max(drawn, *(len(name) for name, _ in every))
        per_line = max(1, (options.max_width + _GAP) // (width + _GAP))
        for row in self.rows:
            for first in range(0, len(row), per_line):
                line = row[first : first + per_line]
                yield Text((" " * _GAP).join(fit(name, width) for name, _ in line), no_wrap=True)
                tops = [highest if self.scale == "all" else _highest(weights) for _, weights in line]
                small = [_thumbnail(weights, top, shape, brush) for (_, weights), top in zip(line, tops, strict=True)]
                yield from _side_by_side(small, width)
        yield Text(f"colours: {SCALE_WORDS[self.scale]}", style="dim")
        yield from scale_bar("0", f"{highest:.2g}" if self.scale == "all" else "its largest", brush)
        pooled = f"; a cell shows the largest of {shape.factor} × {shape.factor}" if shape.factor > 1 else ""
        yield Text(f"  attention weight{pooled}", style="dim")


def _highest(weights: NDArray[np.float32]) -> float:
    return float(np.nanmax(weights, initial=0.0))


@dataclass(frozen=True)
class _Shape:
    """A drawn cell shows the largest of `factor` × `factor` weights; short texts grow `growth` times."""

    factor: int
    growth: int
    cell_width: int


def _shape(rows: int, columns: int, brush: Brush) -> _Shape:
    """The same size on the screen with half blocks (16 × 16) and with shades two columns wide (8 × 8)."""
    side = _SIDE if brush.in_color else _SIDE // 2
    longest = max(rows, columns)
    return _Shape(-(-longest // side), max(1, side // longest), 1 if brush.in_color else 2)


def _thumbnail(weights: NDArray[np.float32], highest: float, shape: _Shape, brush: Brush) -> list[Line]:
    small = max_pool(weights, shape.factor, shape.factor)
    grid = levels(small.repeat(shape.growth, axis=0).repeat(shape.growth, axis=1), 0.0, highest)
    return half_block_lines(grid, brush) if brush.in_color else whole_cell_lines(grid, brush, shape.cell_width)


def _side_by_side(thumbnails: list[list[Line]], width: int) -> RenderResult:
    for lines in zip(*thumbnails, strict=True):
        for number, line in enumerate(lines):
            yield from line
            if number + 1 < len(lines):
                yield Segment(" " * (_GAP + width - sum(segment.cell_length for segment in line)))
        yield Segment.line()
