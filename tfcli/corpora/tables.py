"""Tables of text: CSV, TSV, JSON Lines, Parquet and Arrow, and which of their columns hold the text. CSV has the usual
quoting, in TSV every field is taken literally. Both, and JSON Lines, are read with the standard library: the `datasets`
library reads them through pandas, which turns the texts "NA" and "null" into missing values, numbers into numbers and
what looks like a date into a date. Parquet and Arrow are read with pyarrow, since the `datasets` library would count a
download on the hub. A column inside a column is named with a dot: `translation.de`."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tfcli.corpora import Documents, Kind, Pair
from tfcli.corpora.reading import LONGEST, BadLine, BadRecords, Report, Spool, StoredFile, read_lines, too_long
from tfcli.errors import BrokenInputError, UsageError, first_lines, json_fault, near, shortened

Record = Mapping[str, Any]
Records = Callable[[tuple[str, ...], Report], Iterable[tuple[str, Record]]]
"""Each record with its place ("line 7") and at least the given outer columns, or all; the unreadable is reported."""

_NAME = re.compile(r"[A-Za-z_]([A-Za-z0-9_.-]{0,30}[A-Za-z0-9_])?")
_ROWS = 256  # of Parquet and Arrow, turned into records at a time
_USUAL_PAIRS = (("source", "target"), ("prompt", "answer"), ("prompt", "completion"))  # columns, the usual ones first


@dataclass(frozen=True)
class Table:
    """Records with named columns that can be read any number of times."""

    label: str  # what messages call it
    columns: tuple[str, ...]  # the columns that can hold text
    rows: Callable[[tuple[str, ...]], Iterator[tuple[str, ...]]]  # values of columns; a missing one is empty


def table_documents(table: Table, kind: Kind, wanted: Sequence[str] | None) -> Documents:
    """A table's documents, from the columns `wanted` or else the obvious ones; UsageError where there are none such."""
    chosen = _chosen(table, kind, wanted)
    if kind == "text":
        return lambda: (text for (text,) in table.rows(chosen))
    return lambda: (Pair(source, target) for source, target in table.rows(chosen))


def require_column_count(kind: Kind, wanted: Sequence[str] | None) -> None:
    """Refuse `data.columns` with the wrong number of names."""
    count, expected = (1, "one name for text") if kind == "text" else (2, "two names for pairs (source, target)")
    if wanted is not None and len(wanted) != count:
        raise UsageError(f"data.columns is {shortened(json.dumps(list(wanted)))}", f"give {expected}")


def _chosen(table: Table, kind: Kind, wanted: Sequence[str] | None) -> tuple[str, ...]:
    if wanted is not None:
        for name in wanted:
            if name not in table.columns:
                guess = near(name, table.columns)
                there = _listed(table) or "columns without text"
                problem = f"{table.label} has no column of text '{shortened(name)}', only {there}"
                raise UsageError(problem, f"perhaps '{guess[0]}' was meant" if guess else "choose one of those")
        return tuple(wanted)
    for known in _USUAL_PAIRS if kind == "pairs" else (("text",),):
        if {*known} <= {*table.columns}:
            return known
    if len(table.columns) == len(known):
        return table.columns
    if len(table.columns) > len(known):
        example = json.dumps(list(table.columns[: len(known)]), ensure_ascii=False)
        problem = f"{table.label} has the columns {_listed(table)}, and it is not clear which to read"
        raise UsageError(problem, f"say so, for example with --set 'data.columns={example}'")
    if kind == "text":
        raise UsageError(f"{table.label} has no column of text", "name a table with one")
    found = f"only one column of text, {_listed(table)}" if table.columns else "no column of text"
    raise UsageError(f"{table.label} has {found}, where pairs need two", "give one column for each side of the pair")


def _listed(table: Table) -> str:
    return ", ".join(f"'{column}'" for column in table.columns)


def delimited_table(file: StoredFile, wanted: Sequence[str] | None, bad: BadRecords) -> Table:
    """A `.csv` or `.tsv` file as a table, whose columns are "1", "2" and so on where it has no header. The first row is
    one when its cells are distinct plain names of up to 32 ASCII letters, digits, `_`, `.` and `-`, a letter or `_`
    first and no punctuation last: "pt, en" is a header, "Sim., Yes." a record. The columns `wanted` overrule this:
    names that are in the first row make it a header, and the numbers make it a record."""
    first = next((row for _, row in numbered_rows(file, bad.reading())), [])
    numbers = tuple(str(place) for place in range(1, len(first) + 1))
    asked = set(wanted or ())
    header = bool(asked) and asked <= set(first)
    if not header and not (asked and asked <= set(numbers)):
        header = len(set(first)) == len(first) and all(_NAME.fullmatch(cell) for cell in first)
    columns = tuple(first) if header else numbers

    def rows(chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        places = [columns.index(name) for name in chosen]
        for _, row in even_rows(file, bad.reading(), len(columns), header):
            yield tuple(row[place] for place in places)

    return Table(file.label, columns, rows)


def even_rows(file: StoredFile, report: Report, width: int, has_header: bool) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header, as numbered; one that has not as many fields as the first is reported."""
    for number, row in islice(numbered_rows(file, report), has_header, None):
        if len(row) == width:
            yield number, row
        else:
            problem = f"Line {number} of {file.label} has {len(row)} fields, where the first has {width}"
            remedy = "correct the line" if file.suffix == ".tsv" else "quote fields with commas"
            report(BrokenInputError(problem, remedy))


def numbered_rows(file: StoredFile, report: Report) -> Iterator[tuple[int, list[str]]]:
    """The rows with the number of their last line; blank lines are no rows."""
    if file.suffix == ".tsv":
        for number, line in enumerate(read_lines(file, report), 1):
            if (content := line.removesuffix("\n").removesuffix("\r")) and not isinstance(line, BadLine):
                yield number, content.split("\t")
        return
    csv.field_size_limit(sys.maxsize)  # a field is a document here; the library's default ends at 128 KiB
    size, is_bad = 0, False

    def lines() -> Iterator[str]:
        nonlocal size, is_bad
        for number, line in enumerate(read_lines(file, report), 1):
            size += len(line)
            if size > LONGEST:  # of a quote that nothing closes
                raise too_long(file, number)
            is_bad |= isinstance(line, BadLine)
            yield line

    reader = csv.reader(lines(), strict=True)
    while True:
        size, is_bad, begin = 0, False, reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            first = f"Lines {begin} to" if begin < reader.line_num else "Line"
            problem = f"{first} {reader.line_num} of {file.label} {'are' if ' to' in first else 'is'} no valid CSV"
            remedy = "close every quote, double those inside a field, or save it as .tsv"
            if not is_bad:
                report(BrokenInputError(f"{problem} ({error})", remedy))
            continue
        if row is None:
            return
        if row and not is_bad:
            yield reader.line_num, row


def record_table(label: str, records: Records, bad: BadRecords) -> Table:
    """A table of mappings; its columns are those of the first record whose value is text or missing."""
    first = next((record for _, record in records((), bad.reading())), {})
    if not first and bad.found.count:
        problem = f"There is no record in {label} that can be read: {bad.found.first[0]}"
        raise UsageError(problem, "name a table with some")

    def rows(chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        outer = tuple(dict.fromkeys(column if column in first else column.split(".")[0] for column in chosen))
        report = bad.reading()
        for place, record in records(outer, report):
            try:
                yield tuple(_text(record, column, f"{place} of {label}") for column in chosen)
            except BrokenInputError as error:
                report(error)

    return Table(label, tuple(_text_columns(first)), rows)


def json_lines(file: StoredFile) -> Records:
    """The records of a `.jsonl` file, one JSON object a line; blank lines are skipped."""

    def records(_: tuple[str, ...], report: Report) -> Iterator[tuple[str, Record]]:
        for number, line in enumerate(read_lines(file, report), 1):
            if isinstance(line, BadLine) or line.isspace():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                problem = f"Line {number} of {file.label} is not valid JSON ({json_fault(error)})"
                report(BrokenInputError(problem, "give one JSON object a line"))
                continue
            if isinstance(record, dict):
                yield f"Line {number}", record
            else:
                problem = f"Line {number} of {file.label} is no JSON object but {line.strip()[:40]}"
                report(BrokenInputError(problem, 'give one object a line, such as {"text": "…"}'))

    return records


def _text_columns(record: Record, prefix: str = "") -> Iterator[str]:
    for name, value in record.items():
        if value is None or isinstance(value, str):
            yield f"{prefix}{name}"
        elif isinstance(value, Mapping):
            yield from _text_columns(value, f"{prefix}{name}.")


def _text(record: Record, column: str, place: str) -> str:
    value: Any = record
    for name in [column] if column in record else column.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise BrokenInputError(f"{place} has no column '{column}'", "give every record the same columns")
        value = value[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        problem = f"{place} has {str(value)[:40]} in the column '{column}', which is not text"
        raise BrokenInputError(problem, "make it a string")
    return encodable(value, place, f"the column '{column}'")


def encodable(text: str, place: str, where: str) -> str:
    """The text, where UTF-8 can hold it: JSON can spell half a surrogate pair."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError as error:
        problem = f"{place} has half a surrogate pair, U+{ord(text[error.start]):04X}, in {where}"
        raise BrokenInputError(problem, "replace it with the whole character") from error
    return text


def columnar_records(file: StoredFile) -> Records:
    """The records of a `.parquet` or `.arrow` file, a few hundred rows, or a batch as it was written, in memory at a
    time. These formats are read from their end: what is compressed or a stream is first copied to a temporary file."""
    spool, is_stream = file.spool, bool(file.compression)
    if file.url and not is_stream:
        with file.raw() as raw:
            is_stream = not raw.seekable()
    if is_stream:
        with file.open() as stream:
            spool = Spool(stream, file.label)

    def records(columns: tuple[str, ...], _: Report) -> Iterator[tuple[str, Record]]:
        import pyarrow

        number = 0
        try:
            place = spool.path if spool else None if file.url else file.path
            with pyarrow.OSFile(str(place)) if place else pyarrow.PythonFile(file.raw(), "r") as opened:
                for batch in (_parquet if file.suffix == ".parquet" else _arrow)(opened, columns):
                    for record in batch.to_pylist():
                        number += 1
                        yield f"Record {number}", record
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            file.require_unchanged()
            problem = f"{file.label} is truncated or is no {file.suffix} file ({first_lines(error)})"
            raise BrokenInputError(problem, "fetch or write it again") from error
        file.require_unchanged()

    return records


def _parquet(file: Any, columns: tuple[str, ...]) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as table:
        # Without columns the first record is what is wanted.
        yield from table.iter_batches(_ROWS if columns else 1, columns=list(columns) or None)


def _arrow(file: Any, columns: tuple[str, ...]) -> Iterator[Any]:
    """Of a stream, or of a file with a footer, which begins with six letters of its own."""
    import pyarrow

    has_footer = file.read(6) == b"ARROW1"
    file.seek(0)
    with (pyarrow.ipc.open_file if has_footer else pyarrow.ipc.open_stream)(file) as table:
        numbers = range(table.num_record_batches) if has_footer else None
        for batch in map(table.get_batch, numbers) if numbers is not None else table:
            names = [name for name in columns if name in batch.schema.names]
            chosen = batch.select(names) if columns else batch.slice(0, 1)
            chosen.validate(full=True)  # what its offsets point at is read without a look
            for first in range(0, len(chosen), _ROWS):
                yield chosen.slice(first, _ROWS)
