"""Measured speed of drawing: a row a form."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.bench import PictureSpeed
from tfcli.render.bench.training import machine_line, milliseconds
from tfcli.render.numbers import plural, short


@dataclass(frozen=True)
class PictureSpeedView:
    """A table of the forms, and over it what was drawn."""

    speed: PictureSpeed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        speed = self.speed
        yield Text("Drawing speed", style="bold")
        yield Text(f"a map of {speed.tokens} × {speed.tokens} weights, {speed.columns} columns wide", style="dim")
        yield Text(machine_line(speed.machine), style="dim")
        yield Text()
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        for _ in range(3):
            table.add_column(no_wrap=True, justify="right")
        table.add_row("", *(Text(name, "dim") for name in ("ms", "10th–90th percentile", "size")))
        for one in speed.times:
            spread = f"{milliseconds(one.seconds.p10)}–{milliseconds(one.seconds.p90)}"
            table.add_row(one.form, Text(milliseconds(one.seconds.p50), "bold"), spread, short(one.size, "B"))
        yield table
        yield Text()
        yield Text(f"median of {plural(speed.rounds, 'round')}, the forms in turns, after one to warm up", style="dim")
