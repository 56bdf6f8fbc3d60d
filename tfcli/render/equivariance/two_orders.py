"""Two texts of the same tokens in another order, token by token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from tfcli.records.equivariance import EQUAL, OrderRecord, Variant
from tfcli.render.equivariance.permutations import named
from tfcli.render.safe import fit, token_label
from tfcli.render.table_csv import Table


@dataclass(frozen=True)
class OrderView:
    """How far each token's output moves between the texts; a column a variant of the model."""

    record: OrderRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        yield Text("The same tokens in another order", style="bold")
        for text in (record.first, record.second):
            yield Text(" ".join(token_label(token) for token in text))
        yield Text("|change of a token's output between the texts| by |output|; = 0 but for rounding", style="dim")
        grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
        grid.add_column("positions\nmask", no_wrap=True)
        grid.add_column("", no_wrap=True)
        for variant in record.variants:
            grid.add_column(_header(variant), justify="right")
        for (first, second), moved in zip(record.places.tolist(), record.moved, strict=True):
            label = fit(token_label(record.first[first]), 14).rstrip()
            grid.add_row(label, f"{first} → {second}", *map(_moved, moved.tolist()))
        grid.add_row(Text("their mean", "bold"), "", *map(_moved, record.sentence.tolist()))
        yield grid
        yield Text("▸ the model as it is", style="dim")
        yield Text(_words(record))


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


def order_table(record: OrderRecord) -> Table:
    """A line a token and variant; the mean over tokens has no places."""
    return Table(("token", "first", "second", "positions", "masked", "own", "moved"), _lines(record))


def _lines(record: OrderRecord) -> Iterator[Sequence[Any]]:
    for number, variant in enumerate(record.variants):
        about = variant.positions, variant.masked, variant.own
        for (first, second), moved in zip(record.places.tolist(), record.moved, strict=True):
            yield record.first[first], first, second, *about, str(moved[number])
        yield None, None, None, *about, str(record.sentence[number])


def _header(variant: Variant) -> str:
    positions, mask = named(variant)
    return f"{'▸ ' if variant.own else ''}{positions}\n{mask}"


def _moved(value: float) -> Text:
    if value < EQUAL:
        return Text("= 0", "green")
    return Text(f"{value:.3f}" if value >= 0.001 else f"{value:.0e}")
