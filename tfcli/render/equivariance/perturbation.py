"""One token's vector changed, and which rows have moved after each half of each layer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from tfcli.records.equivariance import PerturbationRecord
from tfcli.render.brush import Brush, brush_for
from tfcli.render.cells import labelled_row
from tfcli.render.colors import NO_VALUE, WEIGHTS, levels
from tfcli.render.heatmap import HeatMap
from tfcli.render.safe import fit, token_label
from tfcli.render.table_csv import Table

_MOST_LAYERS = 12
_GUTTER, _CELL = 17, 7
_SEEN = {  # whether there is a mask, and a window
    (False, False): "every row sees every other",
    (False, True): "a row sees those less than {} away",
    (True, False): "under the causal mask; earlier rows cannot move",
    (True, True): "under the causal mask, in a window of {}; earlier rows cannot move",
}
_WORDS = {"attention": "attention", "feed_forward": "MLP"}  # as the lecture has it


@dataclass(frozen=True)
class PerturbationView:
    """Rows down, the input and then the halves of the layers across; what each half does on its own below."""

    record: PerturbationRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        changed = token_label(record.tokens[record.changed])
        yield Text(f"Token {record.changed} ({changed}) changed: which rows have moved?", style="bold")
        after = _SEEN[record.masked, record.window is not None].format(record.window)
        yield Text(f"|change of a row| by |row|, after each half of each layer; {after}", style="dim")
        shown = record.moved[:, : 1 + 2 * _MOST_LAYERS]
        if _GUTTER + _CELL * shown.shape[1] <= options.max_width:
            yield from self._numbers(brush_for(console, WEIGHTS))
        else:
            yield self._map(shown)
        if shown.shape != record.moved.shape:
            yield Text(f"the first {_MOST_LAYERS} of {len(record.halves) // 2} layers", style="dim")
        yield Text()
        yield Text("Each half on its own: one row of its input changed, rows of its output that move", style="bold")
        for name in ("attention", "feed_forward"):
            yield self._alone(name)

    def _numbers(self, brush: Brush) -> RenderResult:
        """A number a cell, on its colour; "·" where a row has not moved at all."""
        for header in zip(*self._stages(), strict=True):
            yield Text(" " * _GUTTER + "".join(fit(word, _CELL, "right") for word in header), style="dim")
        moved = self.record.moved
        grid = np.where(moved > 0, levels(moved, 0.0, 1.0), NO_VALUE)
        for label, numbers, row_levels in zip(self._labels(), moved.tolist(), grid.tolist(), strict=True):
            yield from labelled_row(
                fit(label, _GUTTER), [*map(_share, numbers)], row_levels, [_CELL] * len(numbers), brush
            )
            yield Segment.line()
        yield Text("· has not moved at all", style="dim")

    def _map(self, shown: NDArray[np.float32]) -> HeatMap:
        return HeatMap(
            np.where(shown > 0, np.minimum(shown, 1.0), np.nan).astype(np.float32),
            "of the row's length (1: or more)",
            row_labels=self._labels(),
            column_labels=tuple(" ".join(stage) for stage in self._stages()[: shown.shape[1]]),
            empty="has not moved",
            scale=(0.0, 1.0),
        )

    def _labels(self) -> tuple[str, ...]:
        return tuple(
            ("▸ " if row == self.record.changed else "  ") + fit(token_label(token), _GUTTER - 3).rstrip()
            for row, token in enumerate(self.record.tokens)
        )

    def _stages(self) -> list[tuple[str, str]]:
        short = {**_WORDS, "attention": "attn"}
        return [("", "input"), *((str(half.layer), short[half.name]) for half in self.record.halves)]

    def _alone(self, name: str) -> Text:
        rows = [half.rows_alone for half in self.record.halves if half.name == name]
        mixes = any(half.mixes for half in self.record.halves if half.name == name)
        counts = str(rows[0]) if len(set(rows)) == 1 else ", ".join(map(str, rows))
        verdict = "mixes tokens" if mixes else "that row alone"
        if name == "attention" and not mixes:
            verdict = "that row alone: none after it may see it"
        line = Text.assemble(f"{_WORDS[name]:9}  ", (f"{counts} of {len(self.record.tokens)}", "bold"), f"  {verdict}")
        line.append(", in every layer" if len(set(rows)) == 1 else ", layer by layer", "dim")
        return line


def _share(number: float) -> str:
    if number == 0:
        return "·"
    return f"{number:.0e}" if number < 0.0005 else f"{number:.3f}".removeprefix("0")


def perturbation_table(record: PerturbationRecord) -> Table:
    """A line a row and stage."""
    return Table(("row", "token", "layer", "half", "moved"), _lines(record))


def _lines(record: PerturbationRecord) -> Iterator[Sequence[Any]]:
    stages = [(None, "input"), *((half.layer, half.name) for half in record.halves)]
    for row, token in enumerate(record.tokens):
        for (layer, half), moved in zip(stages, record.moved[row], strict=True):
            yield row, token, layer, half, str(moved)
