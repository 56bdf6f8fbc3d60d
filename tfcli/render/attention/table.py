"""One head's attention as a table."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.grid import Grid
from tfcli.render.attention.matrix import weights_matrix
from tfcli.render.attention.words import look_at


@dataclass(frozen=True)
class AttentionTable:
    """Queries down, keys across: one head's weights as numbers while they fit, else as a map.

    Args:
        kept: so many first keys stand apart and are never made smaller.
    """

    record: AttentionRecord
    layer: int
    head: int
    kept: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        matrix = weights_matrix(self.record, self.layer, self.head, self.kept)
        yield from matrix.heading()
        yield Grid(matrix)
        seen = look_at(self.record, self.layer, self.head)
        if seen:
            yield Text(seen)
