"""A positional encoding: its table, and what two positions have to do with each other by their distance."""

from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.positions import PositionsRecord
from tfcli.render.curve import Plot, Series
from tfcli.render.heatmap import HeatMap
from tfcli.render.positions.biases import PositionBiases
from tfcli.render.safe import printable
from tfcli.render.table_csv import Table

ROWS = 24
"""Positions that are drawn where nobody says how many there are."""

_MOST_ROWS = 64

_MERGED = {
    "add": "added to the embeddings",
    "concat": "concatenated to the embeddings",
    "query_key": "added in every layer to what queries and keys are projected from",
}
_FORMULAS = {
    ("sinusoidal", "interleaved"): ("columns 2i and 2i + 1: sine and cosine of n / L^(2i/D)",),
    ("sinusoidal", "halves"): ("columns i and i + D/2: sine and cosine of n / L^(2i/D)",),
    ("rotary", "interleaved"): (
        "columns 2i and 2i + 1: cosine and sine of n / L^(2i/Dh),",
        "the angle that turns dimensions 2i and 2i + 1 of a head (Dh: its size)",
    ),
    ("rotary", "halves"): (
        "columns 2i and 2i + 1: cosine and sine of n / L^(2i/Dh),",
        "the angle that turns dimensions i and i + Dh/2 of a head (Dh: its size)",
    ),
}


@dataclass(frozen=True)
class PositionsView:
    """The table as a map centred on 0, then a curve by distance: of vectors their similarity, of biases themselves.

    Args:
        rows: so many first positions are drawn; None: of all, every so many.
    """

    record: PositionsRecord
    rows: int | None = ROWS

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(_title(self.record), style="bold")
        if self.record.columns == "head":
            yield PositionBiases(self.record)
            return
        yield Text(_size(self.record), style="dim")
        cut = self.rows is not None and self.rows < self.record.length
        yield VectorMap(replace(self.record, table=self.record.table[: self.rows]) if cut else self.record)
        if cut:
            more = "more with --length, every number with --csv"
            yield Text(f"drawn: the first {self.rows} positions; {more}", style="dim")
        for line in _FORMULAS.get((self.record.encoding, self.record.layout or ""), ()):
            yield Text(line, style="dim")
        if self.record.merge:
            yield Text(_MERGED[self.record.merge], style="dim")
        yield Text()
        yield from self._similarity()

    def _similarity(self) -> RenderResult:
        assert self.record.similarity is not None, "vectors have a similarity"
        yield Text("Dot product of two positions by their distance", style="bold")
        yield Text("r_n · r_n+k of vectors scaled to length 1 (their cosine), mean over n", style="dim")
        distances = tuple(float(k) for k in range(len(self.record.similarity)))
        curve = Series("similarity", distances, tuple(self.record.similarity.tolist()), "cyan")
        yield Plot((curve,), "distance k")


@dataclass(frozen=True)
class VectorMap:
    """The positions and dimensions that fit, every so many of them.

    Dimensions that share an angle are its sine and its cosine. Side by side they would draw stripes: the one half of
    all pairs comes first, then the other. Pairs are left out whole. Keeping the largest of a block instead would draw
    little but the cosines near 1.
    """

    record: PositionsRecord
    most_rows: int = _MOST_ROWS
    meaning: str = "value, centred on 0"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        positions, dimensions = self.record.table.shape
        gutter = len(str(self.record.first + positions - 1)) + 1
        row_step = -(-positions // self.most_rows)
        pair_step = -(-dimensions // max(2, (options.max_width - gutter - 1) // 2 * 2))
        half = -(-dimensions // 2)
        halves = self.record.encoding == "sinusoidal" and self.record.layout == "halves"
        ordered = range(dimensions) if halves else [*range(0, dimensions, 2), *range(1, dimensions, 2)]
        kept = ordered[:half:pair_step]
        rows = range(0, positions, row_step)
        columns = [*kept, *ordered[half::pair_step]]
        if _halves(self.record) is None:
            columns, kept = sorted(columns), []
        yield HeatMap(
            self.record.table[np.ix_(rows, columns)],
            self.meaning,
            row_labels=tuple(str(self.record.first + row) for row in rows),
            column_numbers=tuple(columns),
            signed=True,
            wide=2 * len(rows) <= self.most_rows,
            kept=len(kept),
        )
        if row_step > 1 or pair_step > 1:
            drawn = f"drawn: {_every(row_step, 'position')}; {_every(pair_step, 'pair of dimensions')}"
            yield Text(drawn, style="dim")


def _title(record: PositionsRecord) -> str:
    parts = ["Positions", printable(record.encoding)]
    if record.layout:
        parts.append(record.layout)
    if record.base is not None:
        parts.append(f"base {record.base:g}")
    if record.stretching != "linear":
        parts.append(f"stretched {record.scaling:g}-fold by {printable(record.stretching)}")
    elif record.scaling != 1:
        parts.append(f"n divided by {record.scaling:g}")
    if record.side:
        parts.append(f"{record.side} side")
    return " · ".join(parts)


def _size(record: PositionsRecord) -> str:
    numbers = f" ({record.first} to {record.first + record.length - 1})" if record.first else ""
    halves = _halves(record)
    order = f": the {halves[0]}s, then the {halves[1]}s" if halves else ""
    return f"{record.length} positions down{numbers} × {record.d_model} dimensions across{order}"


def _halves(record: PositionsRecord) -> tuple[str, str] | None:
    """What the two dimensions of a pair are; None: none are pairs."""
    if record.layout is None:
        return None
    return ("cosine", "sine") if record.encoding == "rotary" else ("sine", "cosine")


def _every(step: int, noun: str) -> str:
    return f"every {noun}" if step == 1 else f"one {noun} of {step}"


def positions_csv(record: PositionsRecord) -> Table:
    """The table alone, a row a line and no heading, as `numpy.loadtxt` reads it."""
    return Table((), (tuple(str(value) for value in row) for row in record.table))
