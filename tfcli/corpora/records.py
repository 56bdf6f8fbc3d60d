"""Tables whose records are mappings: JSON lines, Parquet, Arrow and the hub.

A column inside a column is named with a dot: `translation.de`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tfcli.corpora.columns import Table
from tfcli.corpora.reading import StoredFile, read_lines
from tfcli.errors import BrokenInputError

Record = Mapping[str, Any]
Records = Callable[[tuple[str, ...]], Iterable[tuple[str, Record]]]
"""Each record with its place ("line 7"), with at least the given outer columns; all where none is given."""


def record_table(label: str, records: Records) -> Table:
    """A table of mappings; its columns are those of the first record whose value is text or missing."""
    first = next((record for _, record in records(())), {})

    def rows(chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        outer = tuple(dict.fromkeys(_outer(column, first) for column in chosen))
        for place, record in records(outer):
            yield tuple(_text(record, column, f"{place} of {label}") for column in chosen)

    return Table(label, tuple(_text_columns(first)), rows)


def json_lines(file: StoredFile) -> Records:
    """The records of a `.jsonl` file, one JSON object a line; blank lines are skipped.

    Read with the standard library: the `datasets` library takes texts that look like dates for dates.
    """

    def records(_: tuple[str, ...]) -> Iterator[tuple[str, Record]]:
        for number, line in enumerate(read_lines(file), 1):
            if line.isspace():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                problem = f"Line {number} of {file.label} is not valid JSON ({error})"
                raise BrokenInputError(problem, "give one JSON object a line") from error
            if not isinstance(record, dict):
                problem = f"Line {number} of {file.label} is no JSON object but {line.strip()[:40]}"
                raise BrokenInputError(problem, 'give one object a line, such as {"text": "…"}')
            yield f"Line {number}", record

    return records


def _text_columns(record: Record, prefix: str = "") -> Iterator[str]:
    for name, value in record.items():
        if value is None or isinstance(value, str):
            yield f"{prefix}{name}"
        elif isinstance(value, Mapping):
            yield from _text_columns(value, f"{prefix}{name}.")


def _outer(column: str, record: Record) -> str:
    return column if column in record else column.split(".")[0]


def _text(record: Record, column: str, place: str) -> str:
    value: Any = record
    for name in [column] if column in record else column.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise BrokenInputError(f"{place} has no column '{column}'", "give every record the same columns")
        value = value[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BrokenInputError(
            f"{place} has {str(value)[:40]} in the column '{column}', which is not text", "make it a string"
        )
    if not value.isascii():
        _require_unicode(value, column, place)
    return value


def _require_unicode(text: str, column: str, place: str) -> None:
    """Refuse halves of surrogate pairs, which JSON can spell and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"{place} has half a surrogate pair, U+{ord(text[error.start]):04X}, in the column '{column}'"
        raise BrokenInputError(problem, "replace it with the whole character") from error
