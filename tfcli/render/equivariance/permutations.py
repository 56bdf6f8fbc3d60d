"""What a model makes of permutations, and what its norms give away."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from tfcli.records.equivariance import Deviation, EquivarianceRecord, NormLeak, Variant
from tfcli.render.safe import printable, token_label
from tfcli.render.table_csv import Table


@dataclass(frozen=True)
class EquivarianceView:
    """The deviations as a table, then the leak of norms across tokens."""

    record: EquivarianceRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"Equivariance · {printable(self.record.model)}", style="bold")
        yield Text(f"{self.record.architecture}, positions: {told(self.record)}", style="dim")
        yield Text(" ".join(token_label(token) for token in self.record.tokens), style="dim")
        yield Text()
        yield Text("Is f(P X) = P f(X)?", style="bold")
        words = f"largest deviation over {self.record.permutations} random orders P of the tokens"
        yield Text(words, style="dim")
        yield self._deviations()
        if any(one.variant.own for one in self.record.deviations):
            yield Text("▸ the model as it is; the others are the same weights with positions or mask changed", "dim")
        yield from self._leaks()

    def _deviations(self) -> Grid:
        grid = _grid("", "positions", "mask", "deviation", "of f(X)'s size", "")
        for one in self.record.deviations:
            positions, mask = named(one.variant, told(self.record))
            mark = "▸" if one.variant.own else ""
            grid.add_row(mark, positions, mask, *_numbers(one), _equivariant(one))
        return grid

    def _leaks(self) -> RenderResult:
        token = token_label(self.record.tokens[self.record.changed])
        yield Text()
        yield Text("What do a norm's mean and variance give away?", style="bold")
        yield Text(
            f"under the causal mask, token {self.record.changed} ({token}) is changed: earlier rows move by", "dim"
        )
        grid = _grid("", "statistics over", "", "deviation", "of their size", "")
        for one in self.record.leaks:
            verdict = Text("the future leaks", "bold red") if one.leaks else Text("nothing leaks", "green")
            mark, what = ("▸", "each token's numbers") if one.statistics == "each token" else ("", "the tokens")
            grid.add_row(mark, what, "", *_numbers(one), verdict)
        yield grid


def told(record: EquivarianceRecord) -> str:
    """What tells the model positions: its encoding, its window, or both."""
    window = "" if record.window is None else f"window of {record.window}"
    if record.encoding == "none":
        return window or "none"
    return f"{record.encoding}, {window}" if window else record.encoding


def named(variant: Variant, positions: str = "told") -> tuple[str, str]:
    """Positions and mask of a variant in words."""
    return positions if variant.positions else "none", "causal" if variant.masked else "none"


def equivariance_table(record: EquivarianceRecord) -> Table:
    """A line a measurement."""
    return Table(("measured", "positions", "masked", "own", "statistics", "largest", "relative"), _lines(record))


def _lines(record: EquivarianceRecord) -> Iterator[Sequence[Any]]:
    for one in record.deviations:
        of = one.variant
        yield "permutation", of.positions, of.masked, of.own, "each token", one.largest, one.relative
    has = told(record) != "none"
    for leak in record.leaks:
        yield "leak", has, True, None, leak.statistics, leak.largest, leak.relative


def _grid(*headers: str) -> Grid:
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for header in headers:
        grid.add_column(header, justify="right" if header.startswith(("deviation", "of ")) else "left")
    return grid


def _numbers(one: Deviation | NormLeak) -> tuple[str, str]:
    return f"{one.largest:.2g}", f"{one.relative:.2g}"


def _equivariant(one: Deviation) -> Text:
    return Text("equivariant", "green") if one.equivariant else Text("order counts", "yellow")
