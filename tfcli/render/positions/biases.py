"""What a positional encoding adds to each head's scores by the distance of key and query."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.positions import PositionsRecord
from tfcli.render.curve import Plot, Series
from tfcli.render.heatmap import HeatMap

_MOST_HEADS = 32  # lines of the map
_STYLES = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta")
_LETTERS = "abcdefgh"  # that tell curves apart where there is no colour


@dataclass(frozen=True)
class PositionBiases:
    """A record of biases: a map of what they do to the weights (heads down, distances across), then their curves."""

    record: PositionsRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        distances, heads = self.record.table.shape
        yield Text(f"{heads} heads down × {distances} distances across", style="dim")
        yield BiasMap(self.record)
        for line in self._meaning():
            yield Text(line, style="dim")
        yield Text()
        yield from self._curves(in_color=console.color_system is not None and not console.no_color)

    def _meaning(self) -> list[str]:
        if self.record.encoding != "alibi":
            after = "; where k < 0, after it" if self.record.first < 0 else ""
            return [
                f"distance k: the key stands k tokens before its query{after}",
                "bias: learned, a number a head for every bucket of distances; one for all layers",
            ]
        lines = ["distance k: the key stands k tokens from its query", "bias: −m · k, each head with its own slope m"]
        if self.record.length > 1:
            slopes = [f"{slope:.3g}" for slope in -self.record.table[1]]
            shown = slopes if len(slopes) <= len(_STYLES) else [*slopes[:4], "…", *slopes[-2:]]
            lines.append(f"m = {', '.join(shown)}")
        return lines

    def _curves(self, *, in_color: bool) -> RenderResult:
        distances, heads = self.record.table.shape
        step = -(-heads // len(_STYLES))
        which = "a curve a head" if step == 1 else f"a curve for one head of {step}"
        yield Text(f"Bias by distance, {which}", style="bold")
        ks = tuple(float(self.record.first + row) for row in range(distances))
        curves = (
            Series(str(head), ks, tuple(self.record.table[:, head].tolist()), style, "" if in_color else letter)
            for head, style, letter in zip(range(0, heads, step), _STYLES, _LETTERS, strict=False)
        )
        yield Plot(tuple(curves), "distance k · head")


@dataclass(frozen=True)
class BiasMap:
    """e^(bias − the head's largest): a softmax over equal scores gives its weights in proportion to it. Biases
    themselves would draw little but the steepest head."""

    record: PositionsRecord
    meaning: str = "weight relative to the head's largest, scores equal"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        distances, heads = self.record.table.shape
        head_step = -(-heads // _MOST_HEADS)
        labels = tuple(f"head {head}" for head in range(0, heads, head_step))
        cells = max(1, (options.max_width - max(map(len, labels)) - 1) // 2)
        step = -(-distances // cells)
        rows = [row for row in range(distances) if (self.record.first + row) % step == 0]  # 0 is always among them
        yield HeatMap(
            weight_by_distance(self.record)[rows, ::head_step].T,
            self.meaning,
            row_labels=labels,
            column_numbers=tuple(self.record.first + row for row in rows),
        )
        left_out = [f"one {noun} of {n}" for noun, n in (("head", head_step), ("distance", step)) if n > 1]
        if left_out:
            yield Text(f"drawn: {'; '.join(left_out)}", style="dim")


def weight_by_distance(record: PositionsRecord) -> NDArray[np.float32]:
    """What a softmax over equal scores gives, by the head's largest.

    Shape:
        returns: (distances, H)
    """
    weights: NDArray[np.float32] = np.exp(record.table - record.table.max(axis=0))
    return weights
