"""What is said and recorded of how the tables of a source are read."""

import json
import shlex
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from tfcli.corpora.delimited import shown_row
from tfcli.corpora.reading import FileReading
from tfcli.files import names_path
from tfcli.records.dataset import TableReading

Key = TypeVar("Key", bound=Hashable)


def table_notices(name: str, readings: Sequence[FileReading]) -> Iterator[str]:
    """The sentences about how a source is read: what a first row was taken for, unless that is plain,
    and which columns are left. Files that are read alike share a sentence.

    Args:
        name: The source, as the user named it.
        readings: How each of its tables is read.
    """
    uncertain = [reading for reading in readings if not reading.is_certain]
    for first_row, alike in _groups(uncertain, lambda reading: (reading.is_header, reading.first)):
        is_header, first = first_row
        called = _called(name, alike)
        if is_header:
            remedy = "use --set data.header=false if it is data"
            yield f"{called}: first row read as header: {shown_row(first)}; {remedy}."
        else:
            remedy = "use --set data.header=true if it names the columns"
            yield f"{called}: first row read as data: {shown_row(first)}; {remedy}."
    label_first = [reading for reading in readings if reading.is_label_first]
    if label_first:
        remedy = """use --set 'data.columns=["1", "2"]' if the texts come first"""
        yield f"{_called(name, label_first)}: labels read from column 1, texts from column 2; {remedy}."
    partly = [reading for reading in readings if reading.unread]
    for (columns, unread), alike in _groups(partly, lambda reading: (reading.columns, reading.unread)):
        read = f"only the column{'s' if len(columns) > 1 else ''} {shown_row(columns)}"
        verb = "are" if len(columns) > 1 else "is"
        yield f"{_called(name, alike)}: {read} {verb} read, not {shown_row(unread)}."
        labels = alike[0].labels
        if labels is not None and names_path(name):
            words = ["tfcli", "train", name, "--task", "classify"]
            if alike[0].needs_columns:
                text_and_label = json.dumps([columns[0], labels], ensure_ascii=False)
                words += ["--set", f"data.columns={text_and_label}"]
            yield f"To learn the column {labels} as labels: {shlex.join(words)}"


def table_records(name: str, readings: Sequence[FileReading]) -> tuple[TableReading, ...]:
    """How the CSV and TSV files of a source are read; files that are read alike share a record."""
    delimited = [reading for reading in readings if reading.first]
    groups = _groups(delimited, lambda reading: (reading.is_header, reading.columns))
    return tuple(
        TableReading(source=name, files=len(alike), header=is_header, columns=columns)
        for (is_header, columns), alike in groups
    )


def _groups(
    readings: Sequence[FileReading], key: Callable[[FileReading], Key]
) -> Iterator[tuple[Key, list[FileReading]]]:
    """The readings by a key, in the order in which the keys come up."""
    groups: dict[Key, list[FileReading]] = {}
    for reading in readings:
        groups.setdefault(key(reading), []).append(reading)
    yield from groups.items()


def _called(name: str, readings: Sequence[FileReading]) -> str:
    return readings[0].label if len(readings) == 1 else f"{name} ({len(readings)} files)"
