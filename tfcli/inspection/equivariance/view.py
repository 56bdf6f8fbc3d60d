"""Permutation equivariance as tables: permutations and norms, one token followed through the layers, two orders."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import NO_VALUE, NO_VALUE_MARK, WEIGHTS, Brush, brush_for, levels
from tfcli.draw.heatmap import HeatMap, labelled_row
from tfcli.draw.safe import fit, printable, token_label
from tfcli.draw.tables import CsvTable, dim, heading
from tfcli.inspection.equivariance import EQUAL, EquivarianceRecord, OrderRecord, PerturbationRecord, Variant
from tfcli.records.arrays import frozen


class EquivarianceView(View[EquivarianceRecord]):
    """The deviations as a table, then the leak of norms across tokens."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        about = f"{record.architecture}, positions: {told(record)}"
        yield from heading(f"Equivariance · {printable(record.model)}", about, _labels(record.tokens))
        over = f"largest deviation over {record.permutations} random orders P of the tokens"
        yield from heading("\nIs f(P X) = P f(X)?", over)
        grid = _grid("", "positions", "mask", "deviation", "of f(X)'s size", "")
        for one in record.deviations:
            verdict = Text("equivariant", "green") if one.equivariant else Text("order counts", "yellow")
            sizes = _sizes(one.largest, one.relative)
            grid.add_row("▸" * one.variant.own, *named(one.variant, told(record)), *sizes, verdict)
        yield grid
        if any(one.variant.own for one in record.deviations):
            yield from dim("▸ the model as it is; the others are the same weights with positions or mask changed")
        token = f"token {record.changed} ({token_label(record.tokens[record.changed])})"
        about = f"under the causal mask, {token} is changed: earlier rows move by"
        yield from heading("\nWhat do a norm's mean and variance give away?", about)
        grid = _grid("", "statistics over", "", "deviation", "of their size", "")
        for leak in record.leaks:
            verdict = Text("the future leaks", "bold red") if leak.leaks else Text("nothing leaks", "green")
            mark, what = ("▸", "each token's numbers") if leak.statistics == "each token" else ("", "the tokens")
            grid.add_row(mark, what, "", *_sizes(leak.largest, leak.relative), verdict)
        yield grid


def _sizes(deviation: float, relative: float) -> tuple[str, str]:
    """A deviation and its share of the size; of what only rounds, the limit, as its digits differ by processor."""
    if 0 < relative < EQUAL:
        return "rounding", f"<{EQUAL:g}"
    return f"{deviation:.2g}", f"{relative:.2g}"


def told(record: EquivarianceRecord) -> str:
    """What tells the model positions: its encoding, its window, or both."""
    window = [] if record.window is None else [f"window of {record.window}"]
    return ", ".join(([] if record.encoding == "none" else [record.encoding]) + window) or "none"


def named(variant: Variant, positions: str = "told") -> tuple[str, str]:
    """Positions and mask of a variant in words."""
    return positions if variant.positions else "none", "causal" if variant.masked else "none"


def _labels(tokens: Sequence[str]) -> str:
    return " ".join(token_label(token) for token in tokens)


def equivariance_table(record: EquivarianceRecord) -> CsvTable:
    """A line a measurement."""
    rows, has = list[tuple[Any, ...]](), told(record) != "none"
    for one in record.deviations:
        rows.append(("permutation", *vars(one.variant).values(), "each token", one.largest, one.relative))
    rows += [("leak", has, True, None, leak.statistics, leak.largest, leak.relative) for leak in record.leaks]
    return CsvTable(("measured", "positions", "masked", "own", "statistics", "largest", "relative"), rows)


def _grid(*heads: str) -> Table:
    sides = (Column(head, justify="right" if head.startswith(("deviation", "of ")) else "left") for head in heads)
    return Table(*sides, box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)


_MOST_LAYERS = 12
_GUTTER, _CELL = 17, 7
_SEEN = {  # whether there is a mask, and a window
    (False, False): "every row sees every other",
    (False, True): "a row sees those less than {} away",
    (True, False): "under the causal mask; earlier rows cannot move",
    (True, True): "under the causal mask, in a window of {}; earlier rows cannot move",
}
_WORDS = {"attention": "attention", "feed_forward": "MLP"}  # as the lecture has it


class PerturbationView(View[PerturbationRecord]):
    """Rows down, the input and then the halves of the layers across; what each half does on its own below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        changed = token_label(record.tokens[record.changed])
        after = _SEEN[record.masked, record.window is not None].format(record.window)
        about = f"|change of a row| by |row|, after each half of each layer; {after}"
        yield from heading(f"Token {record.changed} ({changed}) changed: which rows have moved?", about)
        shown = record.moved[:, : 1 + 2 * _MOST_LAYERS]
        labels = [f"  {fit(token_label(token), _GUTTER - 3).rstrip()}" for token in record.tokens]
        labels[record.changed] = "▸" + labels[record.changed][1:]
        short = {**_WORDS, "attention": "attn"}
        stages = [("", "input"), *((str(half.layer), short[half.name]) for half in record.halves)]
        if _GUTTER + _CELL * shown.shape[1] <= options.max_width:
            yield from _moved_rows(record.moved, labels, stages, brush_for(console, WEIGHTS))
        else:
            drawn = frozen(np.where(shown > 0, np.minimum(shown, 1.0), np.nan))
            across, about = tuple(map(" ".join, stages[: shown.shape[1]])), "of the row's length (1: or more)"
            yield HeatMap(drawn, about, tuple(labels), across, empty="has not moved", scale=(0.0, 1.0))
        if shown.shape != record.moved.shape:
            yield from dim(f"the first {_MOST_LAYERS} of {len(record.halves) // 2} layers")
        yield from heading("\nEach half on its own: one row of its input changed, rows of its output that move")
        for name in ("attention", "feed_forward"):
            yield self._alone(name)

    def _alone(self, name: str) -> Text:
        halves = [half for half in self.record.halves if half.name == name]
        rows = [half.rows_alone for half in halves]
        layers = ", in every layer" if (same := len(set(rows)) == 1) else ", layer by layer"
        verdict = "that row alone" + ": none after it may see it" * (name == "attention")
        if any(half.mixes for half in halves):
            verdict = "mixes tokens"
        counts = f"{', '.join(map(str, rows[:1] if same else rows))} of {len(self.record.tokens)}"
        return Text.assemble(f"{_WORDS[name]:9}  ", (counts, "bold"), f"  {verdict}", (layers, "dim"))


def _moved_rows(
    moved: NDArray[np.float32], labels: Sequence[str], stages: Sequence[tuple[str, str]], brush: Brush
) -> RenderResult:
    """A number a cell, on its colour; "–" where a row has not moved at all."""
    for header in zip(*stages, strict=True):
        yield from dim(" " * _GUTTER + "".join(fit(word, _CELL, "right") for word in header))
    grid = np.where(moved > 0, levels(moved, 0.0, 1.0), NO_VALUE)
    for label, numbers, row_levels in zip(labels, moved.tolist(), grid.tolist(), strict=True):
        texts = [*map(_share, numbers)]
        yield from labelled_row(fit(label, _GUTTER), texts, row_levels, [_CELL] * len(texts), brush)
        yield Segment.line()
    yield from dim(f"{NO_VALUE_MARK} has not moved at all")


def _share(number: float) -> str:
    short = f"{number:.0e}" if number < 0.0005 else f"{number:.3f}".removeprefix("0")
    return short if number else NO_VALUE_MARK


def perturbation_table(record: PerturbationRecord) -> CsvTable:
    """A line a row and stage."""
    stages = [(None, "input"), *((half.layer, half.name) for half in record.halves)]
    rows = (
        (row, token, layer, half, str(moved))
        for row, token in enumerate(record.tokens)
        for (layer, half), moved in zip(stages, record.moved[row], strict=True)
    )
    return CsvTable(("row", "token", "layer", "half", "moved"), rows)


class OrderView(View[OrderRecord]):
    """How far each token's output moves between the texts; a column a variant of the model."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        yield from heading("The same tokens in another order")
        yield from (Text(_labels(record.first)), Text(_labels(record.second)))
        yield from dim("|change of a token's output between the texts| by |output|; = 0 but for rounding")
        grid = _grid()
        grid.add_column("positions\nmask", no_wrap=True)
        grid.add_column("", no_wrap=True)
        for variant in record.variants:
            grid.add_column(("▸ " if variant.own else "") + "\n".join(named(variant)), justify="right")
        for (first, second), moved in zip(record.places.tolist(), record.moved, strict=True):
            label = fit(token_label(record.first[first]), 14).rstrip()
            grid.add_row(label, f"{first} → {second}", *map(_moved, moved.tolist()))
        grid.add_row(Text("their mean", "bold"), "", *map(_moved, record.sentence.tolist()))
        yield grid
        yield from (*dim("▸ the model as it is"), Text(_words(record)))


def _words(record: OrderRecord) -> str:
    """What is to be seen."""
    rows = {(v.positions, v.masked): float(np.max(record.moved[:, i])) for i, v in enumerate(record.variants)}
    parts = []
    if rows[False, False] < EQUAL:
        parts.append("Without positions and mask the texts are one bag of words: the outputs are the same, reordered.")
    if rows.get((True, False), 0.0) >= EQUAL:
        parts.append("Positions tell them apart.")
    if rows[False, True] >= EQUAL:
        parts.append("So does the mask alone: each token sees others before it.")
    return " ".join(parts)


def order_table(record: OrderRecord) -> CsvTable:
    """A line a token and variant; the mean over tokens has no places."""
    rows: list[tuple[Any, ...]] = []
    for number, variant in enumerate(record.variants):
        about = vars(variant).values()
        for (first, second), moved in zip(record.places.tolist(), record.moved, strict=True):
            rows.append((record.first[first], first, second, *about, str(moved[number])))
        rows.append((None, None, None, *about, str(record.sentence[number])))
    return CsvTable(("token", "first", "second", "positions", "masked", "own", "moved"), rows)


def _moved(value: float) -> Text:
    short = f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"
    return Text("= 0", "green") if value < EQUAL else Text(short)
