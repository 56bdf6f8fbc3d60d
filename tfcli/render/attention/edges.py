"""A head's strongest weights as a list."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.attention import AttentionEdges
from tfcli.render.attention.words import KIND_NAMES, labels
from tfcli.render.bars import bar
from tfcli.render.numbers import percent, plural
from tfcli.render.safe import shortened
from tfcli.render.table_csv import Table as CsvTable
from tfcli.render.tables import bare

_LONGEST = 24
_BAR = 20


@dataclass(frozen=True)
class AttentionEdgeList:
    """Query → key with positions, weight and a bar, strongest first; "only key": the query may look at no other."""

    edges: AttentionEdges

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        one = self.edges
        yield Text(f"Strongest attention weights · {KIND_NAMES[one.kind]} · {one.place}", style="bold")
        masked = f"; {plural(one.masked, 'cell')} masked, and not counted" if one.masked else ""
        share = f"they hold {percent(one.share)} of all weight"
        yield Text(f"{len(one.edges)} of {plural(one.possible, 'weight')}; {share}{masked}", style="dim")
        table = bare(">", "query", ">", "key", ">weight", "")
        longest = min(_LONGEST, max(4, (options.max_width - 40) // 2))
        room = min(_BAR, max(4, options.max_width - 2 * longest - 36))
        for edge in one.edges:
            drawn = bar(edge.weight, room, ascii_only=options.ascii_only)
            query, key = labels((edge.query_token, edge.key_token))
            table.add_row(
                Text(str(edge.query), "dim"),
                Text(shortened(query, longest)),
                Text(f"→ {edge.key}", "dim"),
                Text(shortened(key, longest)),
                Text(f"{edge.weight:.3f}"),
                Text(drawn + (" only key" if edge.only else "")),
            )
        yield table


def edges_table(edges: AttentionEdges) -> CsvTable:
    """A row an edge, strongest first."""
    rows = [
        (edges.kind, edges.place, one.query, one.key, one.query_token, one.key_token, one.weight) for one in edges.edges
    ]
    return CsvTable(("kind", "place", "query", "key", "query_token", "key_token", "weight"), rows)
