"""Which columns of a table are read: those that are asked for, those with usual names, the only ones."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfcli.corpora import TASKS, Kind
from tfcli.corpora.headers import Role, are_numbers, places_of, role_of
from tfcli.errors import UsageError, near, shortened

USUAL_COLUMNS: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "text": (("text",),),
    "pairs": (("source", "target"), ("prompt", "answer"), ("prompt", "completion")),
    "classify": (("text", "label"), ("sentence", "label")),
    "tag": (("words", "tags"), ("tokens", "tags"), ("tokens", "ner_tags")),
    "span": (("context", "question", "answer"), ("context", "question", "answers")),
}
"""What the columns of each kind are called, the usual names first."""

_FEWEST_ROWS = 4
_MOST_QUOTED = 8


@dataclass(frozen=True)
class Columns:
    """The columns of a table, from which those that are read are chosen.

    Attributes:
        label: What messages call the table.
        names: Their names, "" for one without; their numbers where the table has no header.
        has_names: Whether the table has names at all.
        can_be_numbered: Whether a column may be given by its number, too.
        unsuitable: Names of further columns, which cannot hold what is read.
        about: What messages add about a first row that is read as data.
        sample: Some rows, by whose values the labels are found where names say nothing.
    """

    label: str
    names: tuple[str, ...]
    has_names: bool = True
    can_be_numbered: bool = False
    unsuitable: tuple[str, ...] = ()
    about: str = ""
    sample: tuple[Sequence[str], ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """The columns with a name or number; the index that pandas writes has none."""
        return tuple(filter(None, self.names))

    def place(self, column: str) -> int:
        """The place of a column, given by its name, in whatever case, or by its number.

        Raises:
            UsageError: There is no such column, or there are several.
        """
        places = places_of(column, self.names) if column.strip() else []
        if len(places) > 1:
            numbers = " or ".join(str(place + 1) for place in places)
            problem = f"{self.label} has {len(places)} columns called '{shortened(column)}'"
            remedy = f"choose one by its number in data.columns: {numbers}" if self.can_be_numbered else "rename one"
            raise UsageError(problem, remedy)
        if places:
            return places[0]
        if self.can_be_numbered and are_numbers([column], len(self.names)):
            return int(column) - 1
        guesses = near(column, self.candidates)
        problem = f"{self.label} has no column of text '{shortened(column)}', only {self.listed()}{self.about}"
        raise UsageError(problem, f"perhaps '{guesses[0]}' was meant" if guesses else "choose one of those")

    def listed(self) -> str:
        """The candidates as a message lists them."""
        quoted = [f"'{shortened(name)}'" for name in self.candidates]
        if len(quoted) > _MOST_QUOTED:
            quoted[_MOST_QUOTED:] = [f"… and {len(quoted) - _MOST_QUOTED} more"]
        return ", ".join(quoted) or "columns without text"

    def unread(self, chosen: Sequence[str]) -> tuple[str, ...]:
        """The named columns that are not among the chosen ones."""
        if not self.has_names:
            return ()
        return tuple(name for name in (*self.candidates, *self.unsuitable) if name not in chosen)


def choose_columns(columns: Columns, kind: Kind, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of a table that are read.

    Args:
        columns: The columns that are there.
        kind: What is read.
        wanted: The columns that are asked for, by name or number.

    Returns:
        The columns as `Columns.place` takes them.

    Raises:
        UsageError: A column is not there, their number is wrong, or it is not clear which to read.
    """
    if wanted is not None:
        require_column_count(kind, wanted)
        return tuple(_as_spelled(columns, name) for name in wanted)
    chosen = obvious_columns(columns, kind)
    if chosen is None:
        raise _unclear(columns, kind)
    return chosen


def require_column_count(kind: Kind, wanted: Sequence[str] | None) -> None:
    """Refuse `data.columns` with the wrong number of names."""
    names = USUAL_COLUMNS[kind][0]
    if wanted is None or len(wanted) == len(names):
        return
    if kind in TASKS:
        raise UsageError(f"data.columns names {len(wanted)} columns", f"name those for {', '.join(names)}")
    expected = "one name for text" if kind == "text" else "two names for pairs (source, target)"
    raise UsageError(f"data.columns is {shortened(json.dumps(list(wanted)))}", f"give {expected}")


def obvious_columns(columns: Columns, kind: Kind) -> tuple[str, ...] | None:
    """The columns that need no choice; None where there are no such columns."""
    for usual in USUAL_COLUMNS[kind]:
        if all(places_of(name, columns.names) for name in usual):
            return tuple(_as_spelled(columns, name) for name in usual)
    if not columns.has_names:
        return _columns_by_order(columns, kind)
    if kind == "text":
        return _text_column(columns)
    if kind == "pairs":
        return _pair_columns(columns)
    return _labelled_columns(columns) if kind == "classify" else None


def label_column(columns: Columns) -> str | None:
    """The column that holds labels by its name, if there is one."""
    names = (*columns.candidates, *columns.unsuitable) if columns.has_names else ()
    labels = [name for name in names if role_of(name) == "label"]
    return labels[0] if labels else None


def is_found_by_task(columns: Columns, text: str, label: str) -> bool:
    """Whether `--task classify` reads these two columns of a table without `data.columns`."""
    # Labels of JSON Lines may be numbers.
    with_numbers = replace(columns, names=(*columns.names, *columns.unsuitable))
    try:
        return obvious_columns(with_numbers, "classify") == (text, label)
    except UsageError:  # two columns have one name
        return False


def _as_spelled(columns: Columns, name: str) -> str:
    """The column as the table spells its name; a number stays a number."""
    place = columns.place(name)
    return columns.names[place] if places_of(name, columns.names) else str(place + 1)


def _columns_by_order(columns: Columns, kind: Kind) -> tuple[str, ...] | None:
    """All columns of a table without names, if their number fits. Labels may come before texts."""
    if len(columns.names) != len(USUAL_COLUMNS[kind][0]):
        return None
    if kind == "classify" and _is_label_first(columns.sample):
        return columns.names[1], columns.names[0]
    return columns.names


def _text_column(columns: Columns) -> tuple[str, ...] | None:
    if len(columns.candidates) == 1:
        return columns.candidates
    roles = _roles(columns)
    texts = [name for name, role in roles if role == "text"]
    is_clear = len(texts) == 1 and all(role in ("text", "label", "other") for _, role in roles)
    return (texts[0],) if is_clear else None


def _pair_columns(columns: Columns) -> tuple[str, ...] | None:
    if len(columns.candidates) == 2:
        return columns.candidates
    roles = _roles(columns)
    sides = tuple(name for name, role in roles if role != "other")
    is_clear = len(sides) == 2 and all(role is not None for _, role in roles)
    return sides if is_clear else None


def _labelled_columns(columns: Columns) -> tuple[str, ...] | None:
    """The text and its label by the roles of their names, or the only two columns."""
    roles = _roles(columns)
    texts = [name for name, role in roles if role == "text"]
    labels = [name for name, role in roles if role == "label"]
    if not labels and len(texts) == 1:
        labels = [name for name, _ in roles if name.casefold() in ("target", "y", "tag", "output")]
    if len(texts) == 1 and len(labels) == 1:
        return texts[0], labels[0]
    if len(columns.candidates) != 2:
        return None
    first, second = columns.candidates
    if len(labels) == 1:
        return (second, first) if labels[0] == first else (first, second)
    if len(texts) == 1:
        return (second, first) if texts[0] == second else (first, second)
    places = [columns.place(name) for name in columns.candidates]
    values = tuple([row[place] for place in places] for row in columns.sample)
    return (second, first) if _is_label_first(values) else (first, second)


def _roles(columns: Columns) -> list[tuple[str, Role | None]]:
    return [(name, role_of(name)) for name in columns.candidates]


def _is_label_first(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of two columns has a few short values that recur, and the second is a text."""
    if len(rows) < _FEWEST_ROWS:
        return False
    first = [row[0].strip() for row in rows]
    second = [row[1].strip() for row in rows]
    repeats = 2 * len(set(first)) <= len(first) and len(set(first)) < len(set(second))
    return repeats and max(map(len, first)) < sum(map(len, second)) / len(second)


def _unclear(columns: Columns, kind: Kind) -> UsageError:
    """The error of a table from which it does not follow what is read."""
    needed = USUAL_COLUMNS[kind][0]
    example = json.dumps(list(columns.candidates[: len(needed)]), ensure_ascii=False)
    if kind in TASKS:
        problem = f"{columns.label} has the columns {columns.listed()}{columns.about}"
        remedy = f"rename them, or name them in this order: --set 'data.columns={shortened(example)}'"
        if len(columns.candidates) < len(needed):
            remedy = "name a table with these columns"
        return UsageError(f"{problem}, and {kind} needs {', '.join(needed)}", remedy)
    if len(columns.candidates) > len(needed):
        problem = f"{columns.label} has the columns {columns.listed()}{columns.about}"
        remedy = f"say so, for example with --set 'data.columns={shortened(example)}'"
        return UsageError(f"{problem}, and it is not clear which to read", remedy)
    if kind == "text":
        return UsageError(f"{columns.label} has no column of text", "name a table with one")
    number = f"only one column of text, {columns.listed()}" if columns.candidates else "no column of text"
    remedy = "give one column for each side of the pair"
    return UsageError(f"{columns.label} has {number}, where pairs need two", remedy)
