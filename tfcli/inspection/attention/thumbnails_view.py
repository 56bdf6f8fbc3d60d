"""Small multiples of attention heads: all layers and heads of one kind of attention as thumbnails."""

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
        layers = range(num_layers)
        if record.names:
            maps = [[(f"L{layer}", record.visible_weights(layer, 0)) for layer in layers]]
        else:
            own = range(num_heads)
            maps = [[(f"L{layer} H{head}", record.visible_weights(layer, head)) for head in own] for layer in layers]
        yield Thumbnails(maps, self.scale)


@dataclass(frozen=True)
class Thumbnails:
    """Small maps of one shape under their names, a line of them a row; those that do not fit go to the next line.

    All share one colour scale, or each has its own, from 0 to its largest weight. In long
    texts a cell shows the largest weight of its block.

    Shape:
        rows: a name and (T, S) each, NaN where a query may not look
    """

    rows: list[list[tuple[str, NDArray[np.float32]]]]
    scale: Scale = "all"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush = brush_for(console, WEIGHTS)
        every = [one for row in self.rows for one in row]
        highest = max(_highest(weights) for _, weights in every)
        longest, columns = max(every[0][1].shape), every[0][1].shape[1]
        # The same size on the screen with half blocks (16 × 16) and with shades two columns wide (8 × 8).
        side, cell_width = (_SIDE, 1) if brush.in_color else (_SIDE // 2, 2)
        factor, growth = -(-longest // side), max(1, side // longest)
        width = max(-(-columns // factor) * growth * cell_width, *(len(name) for name, _ in every))
        per_line = max(1, (options.max_width + _GAP) // (width + _GAP))
        for row in self.rows:
            for first in range(0, len(row), per_line):
                shown = row[first : first + per_line]
                yield Text((" " * _GAP).join(fit(name, width) for name, _ in shown), no_wrap=True)
                drawn = []
                for _, weights in shown:
                    small = max_pool(weights, factor, factor).repeat(growth, axis=0).repeat(growth, axis=1)
                    drawn.append(small_map(small, highest if self.scale == "all" else _highest(weights), brush))
                for parts in zip(*drawn, strict=True):
                    for part in parts[:-1]:
                        yield from part
                        yield Segment(" " * (_GAP + width - sum(segment.cell_length for segment in part)))
                    yield from parts[-1]
                    yield Segment.line()
        is_shared = self.scale == "all"
        yield Text(f"colours: {'one scale for all maps' if is_shared else 'each map on its own scale'}", style="dim")
        yield from scale_bar("0", f"{highest:.2g}" if is_shared else "its largest", brush)
        pooled = f"; a cell shows the largest of {factor} × {factor}" if factor > 1 else ""
        yield Text(f"  attention weight{pooled}", style="dim")


def small_map(weights: NDArray[np.float32], highest: float, brush: Brush) -> list[Line]:
    """Weights from 0 to `highest` as half blocks, one column each; without colour as shades, two columns wide."""
    grid = levels(weights, 0.0, highest)
    return half_block_lines(grid, brush) if brush.in_color else whole_cell_lines(grid, brush, 2)


def _highest(weights: NDArray[np.float32]) -> float:
    return float(np.nanmax(weights, initial=0.0))
