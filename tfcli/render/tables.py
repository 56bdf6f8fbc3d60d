"""Tables in the terminal: with a line under their heads, with heads alone, or of figures under dim heads."""

from rich import box
from rich.table import Table
from rich.text import Text


def grid(*heads: str) -> Table:
    """With a line under its heads, and nothing around it.

    Args:
        heads: of columns that do not wrap; one that begins with ">" is of numbers, which stand on the right.
    """
    return _headed(Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), header_style="dim"), heads)


def bare(*heads: str) -> Table:
    """Heads as of `grid`, without any line."""
    return _headed(Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim"), heads)


def figure_table(*heads: str, style: str = "dim", tail: bool = False) -> Table:
    """Names left, and a column of figures under each head; with `tail` a column without a head behind them."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in heads:
        table.add_column(no_wrap=True, justify="right")
    if tail:
        table.add_column(no_wrap=True)
    table.add_row("", *(Text(head, style) for head in heads))
    return table


def _headed(table: Table, heads: tuple[str, ...]) -> Table:
    for head in heads:
        table.add_column(head.removeprefix(">"), justify="right" if head.startswith(">") else "left", no_wrap=True)
    return table
