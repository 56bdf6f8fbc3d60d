"""Scores by length, a row a bucket."""

from collections.abc import Callable

from rich.table import Table
from rich.text import Text

from tfcli.records.evaluation import Bucket, Scores
from tfcli.render.bars import bar
from tfcli.render.numbers import exact, percent

_BARS_FROM = 100
"""Columns of a terminal in which bars fit beside the figures."""

_LONGEST_BAR = 30

_Column = tuple[str, Callable[[Bucket], str]]


def buckets_table(scores: Scores, width: int) -> Table:
    """The buckets; in a wide terminal each with a bar, of its BLEU or its loss."""
    pairs = scores.objective == "seq2seq"
    columns: list[_Column] = [
        ("pairs" if pairs else "documents", lambda bucket: exact(bucket.documents)),
        ("loss", lambda bucket: _number(bucket.loss, 4)),
        ("accuracy", lambda bucket: _share(bucket.accuracy)),
    ]
    if pairs:
        columns += [
            ("BLEU", lambda bucket: _number(bucket.bleu, 2)),
            ("chrF", lambda bucket: _number(bucket.chrf, 2)),
            ("exact", lambda bucket: _share(bucket.exact_match)),
        ]
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, justify="right")
    for _ in columns:
        table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    drawn = "bleu" if pairs else "loss"
    lengths = [getattr(bucket, drawn) or 0.0 for bucket in scores.buckets]
    with_bars = width >= _BARS_FROM and max(lengths) > 0
    heading = Text("source tokens" if pairs else "tokens", "dim")
    table.add_row(heading, *(Text(name, "dim") for name, _ in columns))
    for bucket, length in zip(scores.buckets, lengths, strict=True):
        row = [Text(_range(bucket)), *(Text(write(bucket)) for _, write in columns)]
        if with_bars:
            row.append(Text(bar(length / max(lengths), _LONGEST_BAR), "green"))
        table.add_row(*row)
    return table


def _range(bucket: Bucket) -> str:
    if bucket.shortest == 1:
        return f"up to {exact(bucket.longest)}"
    return f"{exact(bucket.shortest)}–{exact(bucket.longest)}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)
