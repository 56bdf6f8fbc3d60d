"""The shapes of a computation as a table: what each tensor is, its axes in symbols and in numbers."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from tfcli.records.explain import ShapeTrace
from tfcli.render.explain.steps import NOTATIONS, bullet
from tfcli.render.safe import printable
from tfcli.render.table_csv import Table


@dataclass(frozen=True)
class ShapesView:
    """A tensor a line, in the order in which they are computed."""

    trace: ShapeTrace

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(printable(self.trace.title), style="bold")
        yield Text(printable(self.trace.subtitle), style="dim")
        yield Text(f"notation of {NOTATIONS[self.trace.notation]}", style="dim")
        yield Text()
        grid = Grid.grid(padding=(0, 2))
        for justify in ("left", "left", "right", "left"):
            grid.add_column(justify=justify, no_wrap=justify == "right")
        grid.add_row(*(Text(name, "dim") for name in ("tensor", "axes", "shape", "formula")))
        for one in self.trace.tensors:
            grid.add_row(
                Text(printable(one.name), "bold"),
                Text(f"({', '.join(one.axes)})"),
                Text(f"({', '.join(map(str, one.shape))})", "bold"),
                Text(printable(one.formula), "cyan"),
            )
        yield grid
        yield Text()
        for note in self.trace.notes:
            yield bullet(note)


def shapes_table(trace: ShapeTrace) -> Table:
    """The same as columns; axes and sizes of one tensor are separated by " × "."""
    return Table(
        ("tensor", "axes", "shape", "formula"),
        ((one.name, " × ".join(one.axes), " × ".join(map(str, one.shape)), one.formula) for one in trace.tensors),
    )
