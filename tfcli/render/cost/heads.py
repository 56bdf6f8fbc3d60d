"""The same attention cut into more and more heads."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.cost import HeadCosts
from tfcli.render.bars import bar
from tfcli.render.numbers import exact, plural, short, short_duration
from tfcli.render.table_csv import Table
from tfcli.render.tables import grid

_BAR = 16
_EXACT_FROM = 74


@dataclass(frozen=True)
class HeadsView:
    """What stays equal, what grows, and the time that it takes."""

    record: HeadCosts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        first, last = r.counts[0], r.counts[-1]
        yield Text(f"One attention of size D = {r.d_model} cut into k heads of size D / k", style="bold")
        where = f"{plural(r.sequences, 'sequence')} of N = {exact(r.length)} tokens, explicit path, no mask"
        formula = "8 N D² + 4 N² D" if first.parameters else "4 N² D"
        yield Text(f"a sequence: {formula} FLOPs whatever k is, k N² exponentials · {where}", style="dim")
        table = grid(">k", ">D / k", ">parameters", ">FLOPs", ">exponentials", ">measured")
        table.add_column("")
        slowest = max(one.seconds for one in r.counts)
        write = exact if options.max_width >= _EXACT_FROM else short
        for one in r.counts:
            numbers = (write(one.parameters), write(one.flops), write(one.exponentials), short_duration(one.seconds))
            drawn = Text(bar(one.seconds / slowest, _BAR, ascii_only=options.ascii_only), "yellow")
            table.add_row(str(one.num_heads), str(one.head_dim), *numbers, drawn if options.max_width >= 70 else "")
        yield table
        yield Text(
            f"See: {plural(last.num_heads, 'head')} cost the matrix products of {first.num_heads}, "
            f"{last.exponentials / first.exponentials:.3g} × the exponentials, and {last.seconds / first.seconds:.2f} "
            "× the time."
        )


def heads_table(record: HeadCosts) -> Table:
    """A row for each number of heads."""
    columns = ("num_heads", "head_dim", "parameters", "flops", "exponentials", "seconds")
    return Table(columns, [[getattr(one, name) for name in columns] for one in record.counts])
