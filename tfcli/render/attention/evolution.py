"""A head as training went: its map at every checkpoint that is kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.attention import AttentionEvolution
from tfcli.render.attention.overview import Thumbnails
from tfcli.render.attention.words import HABITS, KIND_NAMES, SIDES, token_at
from tfcli.render.numbers import exact, weight
from tfcli.render.table_csv import Table as CsvTable
from tfcli.render.tables import bare


@dataclass(frozen=True)
class AttentionEvolutionView:
    """Maps in order of step on one scale, and under them how sharp the head is at each."""

    evolution: AttentionEvolution

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        one = self.evolution
        yield Text(
            f"Attention weights by step · {KIND_NAMES[one.kind]} · layer {one.layer}, head {one.head}", style="bold"
        )
        count, queries, keys = one.weights.shape
        yield Text(f"{count} checkpoints; {queries} queries down, {keys} keys across; {SIDES[one.kind]}", style="dim")
        names = [f"step {exact(step.step)}" for step in one.steps]
        visible = np.where(one.mask, one.weights, np.float32(np.nan))
        yield Thumbnails((tuple(zip(names, visible, strict=True)),))
        yield Text("")
        yield self._figures()
        yield Text("entropy = −Σ w ln w of a row, the mean over rows: 0 nats looks at one key alone", style="dim")
        if one.kind != "cross":
            yield Text(f"strongest: {HABITS}", style="dim")

    def _figures(self) -> Table:
        one = self.evolution
        table = bare(">step", ">entropy, nats", ">strongest", "query → key")
        for step in one.steps:
            query = token_at(one.query_tokens, range(len(one.query_tokens)), step.row)
            key = token_at(one.key_tokens, range(len(one.key_tokens)), step.column)
            edge = f"{query} → {key}" if step.strongest else "none"
            table.add_row(exact(step.step), f"{step.entropy:.2f}", weight(step.strongest), Text(edge))
        return table


def evolution_table(evolution: AttentionEvolution) -> CsvTable:
    """A row a step and cell."""
    return CsvTable(
        ("kind", "layer", "head", "step", "query", "key", "query_token", "key_token", "weight"), _rows(evolution)
    )


def _rows(one: AttentionEvolution) -> Iterator[tuple[object, ...]]:
    for index, step in enumerate(one.steps):
        for (row, column), value in np.ndenumerate(one.weights[index]):
            names = (one.query_tokens[row], one.key_tokens[column])
            yield (one.kind, one.layer, one.head, step.step, row, column, *names, float(str(value)))
