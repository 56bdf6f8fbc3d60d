"""Nearest tokens in an embedding matrix as a table with bars."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from tfcli.records.neighbours import NeighboursRecord, TokenNeighbours
from tfcli.render.bars import bar
from tfcli.render.numbers import exact
from tfcli.render.safe import fit, printable, token_label, widest
from tfcli.render.table_csv import Table

_LONGEST_LABEL = 24
_LONGEST_BAR = 40
_AROUND = 4 + 2 + 2 + 6 + 2 + 6  # rank, blanks, cosine, length


@dataclass(frozen=True)
class NeighboursView:
    """For each token those nearest to it; bars go from cosine 0 to 1."""

    record: NeighboursRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        of_head = "E, which the head shares" if record.tied else "E" if record.matrix == "input" else "W of the head"
        yield Text(f"Nearest tokens · {printable(record.run)} · {of_head}", style="bold")
        yield Text(
            f"cos(a, b) = a·b / ‖a‖‖b‖ between rows of {exact(record.vocabulary)} tokens × {record.d_model}", "dim"
        )
        label = min(_LONGEST_LABEL, max(map(_widest, record.tokens)))
        width = max(3, min(_LONGEST_BAR, options.max_width - label - _AROUND))
        for token in record.tokens:
            yield from _one(token, label, width, options.ascii_only)
        yield Text(
            f"Mean cosine of two tokens {record.mean_cosine:.2f}, mean length {record.mean_norm:.3g}. Directions drawn "
            f"at random in {record.d_model} dimensions lie within ±{2 / math.sqrt(record.d_model):.2f} (2/√D) 19 times "
            "out of 20: what is well above that was learned.",
            style="dim",
        )


def _widest(token: TokenNeighbours) -> int:
    return widest(tuple(token_label(one.token) for one in token.neighbours))


def _one(token: TokenNeighbours, label: int, width: int, ascii_only: bool) -> Iterator[Text | Grid]:
    name = token_label(token.token)
    yield Text.assemble((name, "bold"), (f"  id {token.token_id}  length {token.norm:.3g}", "dim"))
    grid = Grid.grid(padding=(0, 2, 0, 0))
    for justify in ("right", "left", "left", "right", "right"):
        grid.add_column(justify=justify, no_wrap=True)
    grid.add_row(*(Text(head, "dim") for head in ("", fit("token", label), "cosine", "", "length")))
    for rank, one in enumerate(token.neighbours, start=1):
        drawn = bar(one.cosine, width, ascii_only=ascii_only)
        row: tuple[Any, ...] = (
            Text(f"{rank:>2}", "dim"),
            Text(fit(token_label(one.token), label)),
            Text(drawn.ljust(width), "cyan"),
            f"{one.cosine:.2f}",
            Text(f"{one.norm:.3g}", "dim"),
        )
        grid.add_row(*row)
    yield grid


def neighbours_table(record: NeighboursRecord) -> Table:
    """A row a neighbour."""
    return Table(
        ("token", "token_id", "rank", "neighbour", "neighbour_id", "cosine", "norm"),
        (
            (token.token, token.token_id, rank, one.token, one.token_id, one.cosine, one.norm)
            for token in record.tokens
            for rank, one in enumerate(token.neighbours, start=1)
        ),
    )
