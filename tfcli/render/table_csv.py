"""A picture's numbers as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """Columns and rows, in the order in which they are written; None is an empty cell."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]


def to_csv(table: Table) -> str:
    """CSV with a heading, where columns have names; numbers with as many digits as name them exactly."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if table.columns:
        writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()
