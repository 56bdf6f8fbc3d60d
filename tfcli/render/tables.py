"""The table of numbers that several pictures have."""

from rich import box
from rich.table import Table


def grid() -> Table:
    """With a line under its heads, and nothing around it."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), header_style="dim")
