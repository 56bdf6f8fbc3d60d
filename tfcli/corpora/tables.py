"""Tables of text: CSV, TSV, JSON Lines, Parquet and Arrow, and which of their columns hold the text. CSV has the usual
quoting, in TSV every field is taken literally. Both, and JSON Lines, are read with the standard library: the `datasets`
library reads them through pandas, which turns the texts "NA" and "null" into missing values, numbers into numbers and
what looks like a date into a date. Parquet and Arrow are read with pyarrow, since the `datasets` library would count a
download on the hub. A column inside a column is named with a dot: `translation.de`."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfcli.corpora import Documents, Kind, Pair
from tfcli.corpora.columns import Columns, choose_columns, is_found_by_task, label_column, obvious_columns
from tfcli.corpora.delimited import DelimitedFile, open_as_before, open_delimited
from tfcli.corpora.headers import role_of
from tfcli.corpora.older_tables import OlderReading, older_reading
from tfcli.corpora.reading import BadLine, BadRecords, FileReading, How, Report, Spool, StoredFile, read_lines
from tfcli.errors import BrokenInputError, UsageError, first_lines, json_fault
from tfcli.recipe.data import Header

Record = Mapping[str, Any]
Records = Callable[[tuple[str, ...], Report], Iterable[tuple[str, Record]]]
"""Each record with its place ("line 7") and at least the given outer columns, or all; the unreadable is reported."""

START = "start"
"""The column that has the place of an answer in its context, where it occurs there more than once."""

_ROWS = 256  # of Parquet and Arrow, turned into records at a time


@dataclass(frozen=True)
class Table:
    """Records with named or numbered columns that can be read any number of times.

    Attributes:
        columns: The columns that can hold text.
        rows: Gives the values of the chosen columns for each record.
    """

    columns: Columns
    rows: Callable[[tuple[str, ...]], Iterator[tuple[str, ...]]]


def table_documents(file: StoredFile, how: How, bad: BadRecords) -> Documents:
    """The documents of a table: the texts of one column, or the pairs of two.

    Raises:
        UsageError: A column is not there, or it is not clear which to read.
    """
    if file.suffix in (".csv", ".tsv"):
        delimited, chosen = chosen_of_delimited(file, how, bad)
        return documents_of(delimited_table(delimited, bad), how.kind, chosen)
    records = json_lines(file) if file.suffix == ".jsonl" else columnar_records(file)
    table = record_table(file.label, records, bad, null_is_blank=how.as_before)
    return documents_of(table, how.kind, chosen_of_records(table.columns, how))


def holds_pairs(file: StoredFile, header: Header) -> bool:
    """Whether a table has columns for pairs, and none for text."""
    bad = BadRecords(skips=True)
    if file.suffix in (".csv", ".tsv"):
        columns = open_delimited(file, None, header, bad).columns
    else:
        records = json_lines(file) if file.suffix == ".jsonl" else columnar_records(file)
        columns = record_table(file.label, records, bad).columns
    return obvious_columns(columns, "text") is None and obvious_columns(columns, "pairs") is not None


def documents_of(table: Table, kind: Kind, chosen: tuple[str, ...]) -> Documents:
    """A table's documents, from the columns that were chosen."""
    if kind == "text":
        return lambda: (text for (text,) in table.rows(chosen))
    return lambda: (Pair(source, target) for source, target in table.rows(chosen))


def chosen_of_delimited(file: StoredFile, how: How, bad: BadRecords) -> tuple[DelimitedFile, tuple[str, ...]]:
    """A CSV or TSV file, and the columns that are read from it, which is recorded.

    Raises:
        UsageError: A column is not there, or it is not clear which to read.
    """
    if how.as_before:
        return open_as_before(file, how.kind, how.columns, bad)
    delimited = open_delimited(file, how.columns, how.header, bad)
    chosen = choose_columns(delimited.columns, how.kind, how.columns)
    places = tuple(map(delimited.columns.place, chosen))
    before = older_reading(how.kind, delimited.first, how.columns)
    _record(how, delimited.columns, chosen, delimited, is_new=before != OlderReading(delimited.is_header, places))
    return delimited, chosen


def chosen_of_records(columns: Columns, how: How) -> tuple[str, ...]:
    """The columns that are read from a table whose columns always have names, which is recorded.

    Raises:
        UsageError: A column is not there, or it is not clear which to read.
    """
    chosen = choose_columns(columns, how.kind, how.columns)
    _record(how, columns, chosen)
    return chosen


def _record(
    how: How,
    columns: Columns,
    chosen: tuple[str, ...],
    delimited: DelimitedFile | None = None,
    *,
    is_new: bool = False,
) -> None:
    unread = () if how.columns is not None else columns.unread(chosen)
    if how.kind == "span":
        unread = tuple(name for name in unread if name != START)
    labels = label_column(columns) if how.kind == "text" else None
    if labels not in unread:
        labels = None
    places = tuple(map(columns.place, chosen)) if delimited else ()
    has_known_name = any(role_of(name) is not None for name in chosen)
    is_guessed = how.kind == "classify" and how.columns is None and not has_known_name
    how.tables.append(
        FileReading(
            label=columns.label,
            first=delimited.first if delimited else (),
            is_header=delimited is None or delimited.is_header,
            is_certain=delimited is None or delimited.is_certain,
            columns=chosen,
            places=places,
            unread=unread,
            labels=labels,
            needs_columns=labels is not None and not is_found_by_task(columns, chosen[0], labels),
            is_label_first=is_guessed and places == (1, 0),
            is_new=is_new,
        )
    )


def delimited_table(delimited: DelimitedFile, bad: BadRecords) -> Table:
    """A CSV or TSV file as a table."""

    def rows(chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        places = [delimited.columns.place(name) for name in chosen]
        for _, row in delimited.rows(bad.reading()):
            yield tuple(row[place] for place in places)

    return Table(delimited.columns, rows)


def record_table(label: str, records: Records, bad: BadRecords, *, null_is_blank: bool = False) -> Table:
    """A table of mappings; its columns are those of the first record whose value is text or missing.

    Args:
        label: What messages call the table.
        records: Gives the records.
        bad: What becomes of records that cannot be read.
        null_is_blank: Read a missing value as a blank text, as versions before `data.header` did.
    """
    first = next((record for _, record in records((), bad.reading())), {})
    if not first and bad.found.count:
        problem = f"There is no record in {label} that can be read: {bad.found.first[0]}"
        raise UsageError(problem, "name a table with some")

    def rows(chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        outer = tuple(dict.fromkeys(column if column in first else column.split(".")[0] for column in chosen))
        report = bad.reading()
        for place, record in records(outer, report):
            try:
                texts = [_text(record, column, f"{place} of {label}") for column in chosen]
                if None in texts and not null_is_blank:
                    raise _null(f"{place} of {label}", chosen[texts.index(None)])
                yield tuple(text or "" for text in texts)
            except BrokenInputError as error:
                report(error)

    texts = tuple(_text_columns(first))
    unsuitable = tuple(name for name in first if not any(name in (text, text.split(".")[0]) for text in texts))
    return Table(Columns(label, texts, unsuitable=unsuitable), rows)


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


def _text(record: Record, column: str, place: str) -> str | None:
    value: Any = record
    for name in [column] if column in record else column.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise BrokenInputError(f"{place} has no column '{column}'", "give every record the same columns")
        value = value[name]
    if value is None:
        return None
    if not isinstance(value, str):
        problem = f"{place} has {str(value)[:40]} in the column '{column}', which is not text"
        raise BrokenInputError(problem, "make it a string")
    return encodable(value, place, f"the column '{column}'")


def _null(place: str, column: str) -> BrokenInputError:
    """The error of a record without a value in a column."""
    remedy = "give it some text, or leave such records out with --set data.on_bad_record=skip"
    return BrokenInputError(f"{place} has null in the column '{column}', which is not text", remedy)


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
