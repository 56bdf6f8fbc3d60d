"""The lectures' ways to write positions side by side, then one of them step by step."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from tfcli.records.position_notations import PositionExplanation, Spelling
from tfcli.render.explain.steps import ExplanationView


@dataclass(frozen=True)
class PositionExplanationView:
    """A block a lecture, the chosen one marked; then the steps."""

    record: PositionExplanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("How the lectures write it", style="bold")
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column()
        for one in self.record.spellings:
            chosen = one.notation is not None and one.notation == self.record.explanation.notation
            grid.add_row(Text(("▸ " if chosen else "  ") + one.lecture, "bold" if chosen else ""), _spelled(one))
        yield Padding(grid, (0, 0, 1, 0))
        yield ExplanationView(self.record.explanation)


def _spelled(one: Spelling) -> Text:
    lines = one.formulas or ("no formula",)
    text = Text("\n").join([Text(line, "cyan" if one.formulas else "dim") for line in lines])
    return text.append("\n").append(one.joins, "cyan").append(f"   {one.letters}", "dim")
