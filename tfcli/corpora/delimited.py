"""CSV and TSV files: their rows, and whether the first one names the columns."""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from tfcli.corpora import Kind
from tfcli.corpora.columns import Columns
from tfcli.corpora.headers import judge_first_row
from tfcli.corpora.older_tables import older_reading
from tfcli.corpora.reading import LONGEST, BadLine, BadRecords, Report, StoredFile, read_lines, too_long
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.recipe.data import Header

_SAMPLED_ROWS = 100
"""How many rows after the first one are looked at to decide whether that is a header."""
_SAMPLED_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class DelimitedFile:
    """A `.csv` or `.tsv` file, and how its first row is read.

    Attributes:
        file: The file.
        sample: The first rows, from which the decision was made.
        is_header: Whether the first of them names the columns.
        is_certain: Whether nothing has to be said about this decision.
    """

    file: StoredFile
    sample: tuple[tuple[str, ...], ...]
    is_header: bool
    is_certain: bool

    @property
    def first(self) -> tuple[str, ...]:
        """The cells of the first row."""
        return self.sample[0] if self.sample else ()

    @cached_property
    def columns(self) -> Columns:
        """The columns by their names, or by their numbers where the first row is data."""
        if self.is_header:
            names = tuple(cell.strip() for cell in self.first)
        else:
            names = tuple(str(place + 1) for place in range(len(self.first)))
        return Columns(
            label=self.file.label,
            names=names,
            has_names=self.is_header,
            can_be_numbered=True,
            about="" if self.is_header else f" (first row read as data: {shown_row(self.first)})",
            sample=self.sample[self.is_header :],
        )

    def rows(self, report: Report) -> Iterator[tuple[int, list[str]]]:
        """The rows of data with their line numbers; one with another number of fields is reported."""
        return even_rows(self.file, report, len(self.first), self.is_header)


def shown_row(cells: Sequence[str]) -> str:
    """A row as a message shows it, on one line, without nameless columns.

    >>> shown_row(["", "hund", "dog"])
    'hund, dog'
    """
    return shortened(", ".join(" ".join(cell.split()) for cell in cells if cell.strip()))


def open_delimited(file: StoredFile, wanted: Sequence[str] | None, header: Header, bad: BadRecords) -> DelimitedFile:
    """Read the beginning of a `.csv` or `.tsv` file, and decide whether its first row is a header.

    Args:
        file: The file.
        wanted: The columns that are asked for.
        header: Whether the first row is a header; "auto": `judge_first_row` decides.
        bad: What becomes of rows that cannot be read.
    """
    sample = _sampled_rows(file, bad.reading())
    if header != "auto":
        return DelimitedFile(file, sample, header, is_certain=True)
    verdict = judge_first_row(sample, wanted)
    return DelimitedFile(file, sample, verdict.is_header, verdict.is_certain)


def open_as_before(
    file: StoredFile, kind: Kind, wanted: Sequence[str] | None, bad: BadRecords
) -> tuple[DelimitedFile, tuple[str, ...]]:
    """As `open_delimited`, by the rule of the versions before `data.header`, with the columns that they read.

    Raises:
        UsageError: They refused the file.
    """
    sample = _sampled_rows(file, bad.reading())
    reading = older_reading(kind, sample[0] if sample else (), wanted)
    if reading is None:
        raise UsageError(f"Earlier versions did not read {file.label}", "train a new run on it")
    delimited = DelimitedFile(file, sample, reading.is_header, is_certain=True)
    names = delimited.columns.names
    chosen = []
    for place in reading.places:
        is_unique = names.count(names[place]) == 1
        chosen.append(names[place] if is_unique else str(place + 1))
    return delimited, tuple(chosen)


def _sampled_rows(file: StoredFile, report: Report) -> tuple[tuple[str, ...], ...]:
    """The first rows of a table. Errors after the first row are reported when the file is read as data."""
    rows: list[tuple[str, ...]] = []
    characters = 0

    def report_before_first(error: BrokenInputError) -> None:
        if not rows:
            report(error)

    for _, row in numbered_rows(file, report_before_first):
        if rows and len(row) != len(rows[0]):
            continue
        rows.append(tuple(row))
        characters += sum(map(len, row))
        if len(rows) > _SAMPLED_ROWS or characters > _SAMPLED_CHARACTERS:
            break
    return tuple(rows)


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
