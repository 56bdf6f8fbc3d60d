"""A prepared dataset in numbers, and what is in the cache."""

from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import duration, exact, percent, plural, short
from tfcli.draw.safe import printable
from tfcli.draw.tables import columns, dim, grid, heading
from tfcli.records.dataset import CacheEntry, DatasetRecord, PartCounts, TableReading

_REMOVED = {
    "short": "too short",
    "long": "too long",
    "ratio": "with sides of too different lengths",
    "identical": "with the same text on both sides",
    "no_letters": "with a side without letters",
    "exact": "exact copies",
    "near": "near-duplicates",
    "in_both_parts": "that stand in both parts",
}


class DatasetView(View[DatasetRecord]):
    """Where the text came from, how it was split, and what each part holds."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        state = "reused, nothing changed" if record.reused else "prepared"
        yield from heading(
            f"Dataset · {printable(record.kind)} · {state}", f"from {', '.join(map(printable, record.sources))}"
        )
        both = {"training": record.train, "validation": record.validation}
        parts = {record.only: record.validation} if record.only else both
        table = columns("l" + "r" * len(parts), gap=3)
        table.add_row("", *(Text(name, "bold") for name in parts))
        unit, side = ("pairs", "target ") if record.kind == "pairs" else ("documents", "")
        names = {unit: "documents", "tokens": "tokens", f"{side}characters": "characters", f"{side}bytes": "bytes"}
        for name, field in names.items():
            table.add_row(name, *(exact(getattr(part, field)) for part in parts.values()))
        table.add_row("unknown tokens", *map(_unknown, parts.values()))
        yield table
        if record.mixture:
            mixed = grid("source", ">weight", ">share of tokens", ">tokens", ">times read")
            for one in record.mixture:
                times = f"{one.epochs:.2f}" + (f" (its {one.max_epochs})" if one.retired_at is not None else "")
                mixed.add_row(printable(one.source), f"{one.weight:g}", percent(one.share), exact(one.tokens), times)
            yield from (Text(), mixed)
            for one in record.mixture:
                if one.retired_at is not None:
                    gave = f"{printable(one.source)} was read {plural(one.max_epochs or 0, 'time')} by token"
                    yield Text(f"{gave} {exact(one.retired_at)}; the others share its part from there on.")
        for line in record.skipped.lines():
            yield Text(printable(line), overflow="fold")
        unit = unit.removesuffix("s")
        if record.removed:
            each = ", ".join(f"{exact(count)} {_REMOVED.get(why, why)}" for why, count in record.removed.items())
            yield Text(f"Left out: {plural(sum(record.removed.values()), unit)} ({printable(each)}).")
        if record.copies and not record.only:
            share = percent(record.copies / record.validation.documents)
            many = f"{exact(record.copies)} of {plural(record.validation.documents, f'validation {unit}')} ({share})"
            stand = "stands" if record.copies == 1 else "stand"
            drop = "data.drop_duplicates = train or validation leaves out such copies there."
            yield Text(f"{many} {stand} in training, too; {drop}", "yellow")
        for reading in record.tables:
            yield Text(printable(_table_line(reading)), "dim", overflow="fold")
        split = "" if record.only else f"split by {record.split} · "
        about = f"{split}vocabulary {exact(record.vocab_size)} · {record.fingerprint[:12]}"
        yield from dim(printable(about), printable(record.path))


def _table_line(reading: TableReading) -> str:
    """What the first row of a table was taken for, and the columns that were read."""
    files = f" ({plural(reading.files, 'file')})" if reading.files > 1 else ""
    first_row = "a header" if reading.header else "data"
    columns = "column" if len(reading.columns) == 1 else "columns"
    source = "standard input" if reading.source == "-" else reading.source
    return f"{source}{files}: first row is {first_row}; {columns} {', '.join(reading.columns)}"


def _unknown(part: PartCounts) -> str:
    return f"{exact(part.unknown)} ({percent(part.unknown / max(1, part.tokens))})" if part.unknown else "0"


class CacheList(View[Sequence[CacheEntry]]):
    """Entries of the cache, a line each: what does not fit is cut from what they were made from."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = grid("kind", "fingerprint", ">size", ">last used")
        table.add_column("made from")
        for entry in self.record:
            state = entry.state if entry.state != "whole" else f"{duration(entry.age_seconds)} ago"
            sources = printable(", ".join("standard input" if one == "-" else one for one in entry.sources)) or "–"
            name = PurePath(entry.path).name.removeprefix(".")[:16]
            whole = map(Text, (entry.kind, name, short(entry.size, "B"), state))
            table.add_row(*whole, Text(sources, no_wrap=True, overflow="ellipsis"))
        yield table
