"""One attention against another: a signed map, and where they differ most."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.attention import AttentionDifference
from tfcli.render.attention.grid import Grid
from tfcli.render.attention.matrix import difference_matrix, paired
from tfcli.render.numbers import weight
from tfcli.render.safe import shortened
from tfcli.render.table_csv import Table as CsvTable
from tfcli.render.tables import bare

_LONGEST = 24


@dataclass(frozen=True)
class AttentionDifferenceView:
    """The map centred on 0, and under it the largest differences with both weights."""

    difference: AttentionDifference
    kept: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        matrix = difference_matrix(self.difference, self.kept)
        yield from matrix.heading()
        yield Grid(matrix)
        yield Text("")
        yield self._largest(options.max_width)

    def _largest(self, width: int) -> Table | Text:
        one = self.difference
        if not one.largest:
            return Text("No difference: both sides are the same, cell by cell.")
        table = bare("query → key", ">first", ">second", ">difference")
        table.title, table.title_justify, table.title_style = "Largest differences", "left", "bold"
        queries = paired(one.query_tokens, one.other_query_tokens)
        keys = paired(one.key_tokens, one.other_key_tokens)
        longest = min(_LONGEST, (width - 46) // 2)
        for row, column in one.largest:
            first, second = float(one.weights[row, column]), float(one.other_weights[row, column])
            table.add_row(
                Text(
                    f"{shortened(queries[row], longest)} ({one.query_positions[row]}) → "
                    f"{shortened(keys[column], longest)} ({one.key_positions[column]})"
                ),
                Text(weight(first)),
                Text(weight(second)),
                Text(f"{first - second:+.2f}", "bold"),
            )
        return table


def difference_table(difference: AttentionDifference) -> CsvTable:
    """A row a cell: query, key, their tokens on both sides, both weights and their difference."""
    one = difference
    rows = (
        (
            one.kind,
            one.query_positions[row],
            one.key_positions[column],
            *(one.query_tokens[row], one.key_tokens[column]),
            *(one.other_query_tokens[row], one.other_key_tokens[column]),
            float(str(one.weights[row, column])),
            float(str(one.other_weights[row, column])),
            float(str(one.differences[row, column])),
        )
        for row in range(len(one.query_tokens))
        for column in range(len(one.key_tokens))
    )
    names = "kind query key query_token key_token other_query_token other_key_token weight other_weight difference"
    return CsvTable(names.split(), rows)
