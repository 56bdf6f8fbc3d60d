"""Tables of the terminal, with their headings and bars; CSV and JSON of records."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.padding import PaddingDimensions
from rich.table import Table
from rich.text import Text

from tfcli.draw.safe import fit


def grid(*heads: str, padding: PaddingDimensions = (0, 0, 0, 1)) -> Table:
    """With a line under its heads of columns that do not wrap; ">" begins one of numbers, which stand on the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, header_style="dim")
    for head in heads:
        table.add_column(head.removeprefix(">"), justify="right" if head.startswith(">") else "left", no_wrap=True)
    return table


def columns(sides: str, *heads: str, gap: int = 2) -> Table:
    """Columns without lines, `gap` apart, with dim heads; in `sides` "l" is text, "r" figures, "w" text that wraps."""
    table = Table.grid(padding=(0, gap))
    for side in sides:
        wraps = side == "w"
        justify: JustifyMethod = "right" if side == "r" else "left"
        table.add_column(justify=justify, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis")
    if heads:
        table.add_row(*(Text(head, "dim") for head in heads))
    return table


def aligned(cells: Iterable[tuple[str, int, str]], gap: int = 2, *, left: int = 1) -> Text:
    """A line of a table whose columns are counted by hand: texts, the cells that each has, and its style. So many first
    ones stand on the `left`, the others on the right."""
    text = Text(no_wrap=True, overflow="crop")
    for number, (cell, width, style) in enumerate(cells):
        text.append(" " * gap * (number > 0)).append(fit(cell, width, "left" if number < left else "right"), style)
    return text


def heading(title: str, *about: str) -> Iterator[Text]:
    """A title, and below it, dim, what is said about it."""
    yield Text(title, style="bold")
    yield from dim(*about)


def dim(*lines: str) -> Iterator[Text]:
    """What explains a picture, a text a line."""
    return (Text(line, style="dim") for line in lines)


@dataclass(frozen=True)
class Fact:
    """A name, its value, and a few words on what it means."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """A title and its facts, one a line: names left, values aligned on the right, notes after them."""

    title: str
    facts: Sequence[Fact]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.title, style="bold")
        table = columns("lrw")
        for fact in self.facts:
            table.add_row(Text(fact.name), Text(fact.value, "bold"), Text(fact.note, "dim"))
        yield table


@dataclass(frozen=True)
class CsvTable:
    """Columns and rows, in the order in which they are written; None is an empty cell."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]

    @classmethod
    def of(cls, records: Iterable[Any], *columns: str) -> "CsvTable":
        """A row a record, from its attributes."""
        return cls(columns, ([getattr(record, column, None) for column in columns] for record in records))


def to_csv(table: CsvTable) -> str:
    """CSV with a heading, where columns have names; numbers with as many digits as name them exactly."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if table.columns:
        writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """A horizontal bar of `share` × `width` cells, to an eighth of a cell; without Unicode, of whole cells.

    >>> bar(0.5, 3), bar(0.5, 4, ascii_only=True)
    ('█▌', '##')
    """
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        return "#" * round(share * width)
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def to_json(record: Any) -> Any:
    """A record, or a list of them, as JSON values; NaN and infinity become null. A record's `json_keys` name the
    attributes that are written, `...` all of its fields. Records with a `json_list` come as a list under that key."""
    records = record if isinstance(record, list | tuple) else [record]
    if records and (key := getattr(records[0], "json_list", None)):
        return {key: [_one(one) for one in records]}
    return [to_json(one) for one in record] if isinstance(record, list | tuple) else _one(record)


def _one(record: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key in getattr(record, "json_keys", (...,)):
        values |= _fields(record) if key is ... else {key: _value(getattr(record, key))}
    return values


def _fields(record: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(record):
        value = _value(getattr(record, field.name))
        # A flat mapping is written among the record's own keys; and `from_` is a "from", which is a word of Python's.
        values |= value if field.metadata.get("flat") else {field.name.rstrip("_"): value}
    return values


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _nested(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, list | tuple):
        return [_value(one) for one in value]
    return _fields(value) if is_dataclass(value) else value


def _nested(array: NDArray[Any]) -> list[Any]:
    """Nested lists; float32 written with as few digits as name it exactly (0.1, not 0.10000000149011612)."""
    values: Any = array
    if array.dtype == np.float32:
        values = array.astype("U32").astype(np.float64)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        values = np.where(np.isfinite(values), values, None)
    return cast("list[Any]", values.tolist())
