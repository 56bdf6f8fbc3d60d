"""Self-attention beside another layer that mixes tokens."""

import math
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.cost import AgainstRecord, MixerCost
from tfcli.render.curve import Plot, Series
from tfcli.render.numbers import exact, plural, short
from tfcli.render.table_csv import Table
from tfcli.render.tables import grid

_NAMES = {"dense": "fully connected", "rnn": "recurrent"}
_SHORT = {"dense": "dense", "rnn": "recurrent"}
_FORMULAS = {
    "dense": "fully connected: all N D numbers to N D others, (N D)² + N D parameters",
    "rnn": "recurrent: h_t = tanh(W x_t + U h_t−1 + b + c), 2 D² + 2 D parameters",
}
_SEE = {
    "dense": (
        "See: the matrix of the fully connected layer has a number for every pair of tokens and dimensions, so that it "
        "grows with N² and fits one N alone. Attention computes its N × N weights from the tokens: it has no parameter "
        "of N, and takes any."
    ),
    "rnn": (
        "See: the recurrent layer takes any N, too, and its operations grow with N alone. But each step waits for the "
        "one before it, and what the first token says reaches the last after N − 1 steps. In attention all "
        "tokens are read at once, from any to any in one step."
    ),
}


@dataclass(frozen=True)
class AgainstView:
    """Both layers by N, then what grows as a curve."""

    record: AgainstRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        yield Text(f"Self-attention beside a {_NAMES[r.other]} layer", style="bold")
        yield Text(f"N tokens of size D = {r.d_model}, {plural(r.num_heads, 'head')}", style="dim")
        yield Text(_FORMULAS[r.other], style="dim")
        table = grid(">N", "layer", ">params", ">FLOPs", ">steps", ">path", "N + 1")
        for at in r.lengths:
            table.add_row(exact(at.length), "attention", *_cells(at.attention), style="cyan")
            table.add_row("", _SHORT[r.other], *_cells(at.other), style="yellow")
        yield table
        yield Text(
            "steps: that wait for each other · path: steps between the two tokens furthest apart · N + 1: "
            "whether a layer made for N tokens ran on one more",
            style="dim",
        )
        yield Text()
        yield from self._curves()
        yield Text(_SEE[r.other])

    def _curves(self) -> RenderResult:
        what = "parameters" if self.record.other == "dense" else "steps"
        yield Text(f"log10 of the {what} by log2 N", style="bold")
        xs = tuple(math.log2(at.length) for at in self.record.lengths)
        ours = tuple(math.log10(getattr(at.attention, what)) for at in self.record.lengths)
        theirs = tuple(math.log10(getattr(at.other, what)) for at in self.record.lengths)
        series = (
            Series("attention", xs, ours, "cyan", letter="a"),
            Series(_NAMES[self.record.other], xs, theirs, "yellow", letter=self.record.other[0]),
        )
        yield Plot(series, "log2 N", height=7)


def against_table(record: AgainstRecord) -> Table:
    """A row for each layer and number of tokens."""
    columns = ("parameters", "flops", "steps", "path", "another_length")
    rows = [
        [at.length, name, *(getattr(layer, column) for column in columns)]
        for at in record.lengths
        for name, layer in (("attention", at.attention), (record.other, at.other))
    ]
    return Table(("length", "layer", *columns), rows)


def _cells(layer: MixerCost) -> tuple[str, ...]:
    takes = "yes" if layer.another_length else "no"
    return short(layer.parameters), short(layer.flops), exact(layer.steps), exact(layer.path), takes
