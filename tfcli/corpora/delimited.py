"""Tables of text: `.csv` with the usual quoting, `.tsv` with every field taken literally.

They are read with the standard library, because the `datasets` library reads them through pandas, which
turns the texts "NA" and "null" into missing values and numbers into numbers.
"""

import csv
import re
import sys
from collections.abc import Iterator, Sequence

from tfcli.corpora.columns import Table
from tfcli.corpora.reading import LONGEST, StoredFile, read_lines, too_long
from tfcli.errors import BrokenInputError

_NAME = re.compile(r"[A-Za-z_]([A-Za-z0-9_.-]{0,30}[A-Za-z0-9_])?")


def delimited_table(file: StoredFile, wanted: Sequence[str] | None) -> Table:
    """A `.csv` or `.tsv` file as a table.

    The first row is a header when its cells are distinct plain names: up to 32 ASCII letters, digits, `_`,
    `.` and `-`, beginning with a letter or `_` and ending with no punctuation. So "pt, en" is a header, and
    "Sim., Yes." is a record.
    A file without a header has the columns "1", "2", … The columns `wanted` overrule this: names that are
    in the first row make it a header, and the numbers make it a record.

    Raises:
        BrokenInputError: the first row cannot be read.
    """
    first = next((row for _, row in _numbered_rows(file)), [])
    header = _has_header(first, wanted)
    columns = tuple(first) if header else _positions(first)

    def rows(chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        places = [columns.index(name) for name in chosen]
        numbered = _numbered_rows(file)
        if header:
            next(numbered, None)
        for number, row in numbered:
            if len(row) != len(columns):
                problem = f"Line {number} of {file.label} has {len(row)} fields, where the first has {len(columns)}"
                raise BrokenInputError(
                    problem, "correct the line" if file.suffix == ".tsv" else "quote fields with commas"
                )
            yield tuple(row[place] for place in places)

    return Table(file.label, columns, rows)


def _has_header(first: list[str], wanted: Sequence[str] | None) -> bool:
    if wanted and set(wanted) <= set(first):
        return True
    if wanted and set(wanted) <= set(_positions(first)):
        return False
    return len(set(first)) == len(first) and all(_NAME.fullmatch(cell) for cell in first)


def _positions(row: list[str]) -> tuple[str, ...]:
    return tuple(str(place) for place in range(1, len(row) + 1))


def _numbered_rows(file: StoredFile) -> Iterator[tuple[int, list[str]]]:
    """The rows with the number of their last line; blank lines are no rows."""
    if file.suffix == ".tsv":
        for number, line in enumerate(read_lines(file), 1):
            if content := line.removesuffix("\n").removesuffix("\r"):
                yield number, content.split("\t")
        return
    csv.field_size_limit(sys.maxsize)  # a field is a document here; the library's default ends at 128 KiB
    size = 0

    def lines() -> Iterator[str]:
        nonlocal size
        for number, line in enumerate(read_lines(file), 1):
            size += len(line)
            if size > LONGEST:  # of a quote that nothing closes
                raise too_long(file, number)
            yield line

    reader = csv.reader(lines(), strict=True)
    try:
        for row in reader:
            size = 0
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        problem = f"Line {reader.line_num} of {file.label} is no valid CSV ({error})"
        raise BrokenInputError(problem, "close every quote, double those inside a field, or save it as .tsv") from error
