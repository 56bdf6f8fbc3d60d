"""Named values under a title: the plain form of every summary."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Fact:
    """A name, its value, and a few words on what it means."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """A title and its facts, one a line: names left, values aligned on the right, notes after them."""

    title: str
    facts: Sequence[Fact]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.title, style="bold")
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, justify="right")
        grid.add_column()
        for fact in self.facts:
            grid.add_row(Text(fact.name), Text(fact.value, "bold"), Text(fact.note, "dim"))
        yield grid
