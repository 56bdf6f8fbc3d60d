"""Which columns of a table hold the text, or the two sides of a pair."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tfcli.corpora.source import Document, Kind, Pair
from tfcli.errors import UsageError, near, shortened


@dataclass(frozen=True)
class Table:
    """Records with named columns that can be read any number of times."""

    label: str
    """What messages call it."""

    columns: tuple[str, ...]
    """The columns that can hold text."""

    rows: Callable[[tuple[str, ...]], Iterator[tuple[str, ...]]]
    """The values of the given columns, record by record; a missing value is empty."""


def table_documents(table: Table, kind: Kind, wanted: Sequence[str] | None) -> Callable[[], Iterator[Document]]:
    """How to read a table's documents, from the columns `wanted` or else the obvious ones.

    Raises:
        UsageError: the columns are not there, or there is no obvious choice.
    """
    chosen = _chosen(table, kind, wanted)
    if kind == "text":
        return lambda: (text for (text,) in table.rows(chosen))
    return lambda: (Pair(source, target) for source, target in table.rows(chosen))


def require_column_count(kind: Kind, wanted: Sequence[str] | None) -> None:
    """Refuse `data.columns` with the wrong number of names.

    Raises:
        UsageError: naming the columns received.
    """
    count = 1 if kind == "text" else 2
    if wanted is not None and len(wanted) != count:
        expected = "one name for text" if kind == "text" else "two names for pairs (source, target)"
        raise UsageError(f"data.columns is {shortened(json.dumps(list(wanted)))}", f"give {expected}")


def _chosen(table: Table, kind: Kind, wanted: Sequence[str] | None) -> tuple[str, ...]:
    if wanted is not None:
        for name in wanted:
            _require_column(table, name)
        return tuple(wanted)
    obvious = ("text",) if kind == "text" else ("source", "target")
    if set(obvious) <= set(table.columns):
        return obvious
    if len(table.columns) == len(obvious):
        return table.columns
    if len(table.columns) > len(obvious):
        example = json.dumps(list(table.columns[: len(obvious)]), ensure_ascii=False)
        problem = f"{table.label} has the columns {_listed(table)}, and it is not clear which to read"
        raise UsageError(problem, f"say so, for example with --set 'data.columns={example}'")
    if kind == "text":
        raise UsageError(f"{table.label} has no column of text", "name a table with one")
    found = f"only one column of text, {_listed(table)}" if table.columns else "no column of text"
    raise UsageError(f"{table.label} has {found}, where pairs need two", "give one column for each side of the pair")


def _require_column(table: Table, name: str) -> None:
    if name in table.columns:
        return
    guess = near(name, table.columns)
    problem = (
        f"{table.label} has no column of text '{shortened(name)}', only {_listed(table) or 'columns without text'}"
    )
    raise UsageError(problem, f"perhaps '{guess[0]}' was meant" if guess else "choose one of those")


def _listed(table: Table) -> str:
    return ", ".join(f"'{column}'" for column in table.columns)
