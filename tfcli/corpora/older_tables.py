"""How versions before `data.header` read CSV and TSV files: their runs must find the same text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfcli.corpora import TASKS, Kind

_NAME = re.compile(r"[A-Za-z_]([A-Za-z0-9_.-]{0,30}[A-Za-z0-9_])?")
_PAIRS = (("source", "target"), ("prompt", "answer"), ("prompt", "completion"))
_LABELLED: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "classify": (("text", "label"), ("sentence", "label")),
    "tag": (("words", "tags"), ("tokens", "tags"), ("tokens", "ner_tags")),
    "span": (("context", "question", "answer"), ("context", "question", "answers")),
}


@dataclass(frozen=True)
class OlderReading:
    """Whether the first row was a header, and the places of the columns that were read."""

    is_header: bool
    places: tuple[int, ...]


def older_reading(kind: Kind, first: Sequence[str], columns: Sequence[str] | None) -> OlderReading | None:
    """How a table with this first row was read; None where it was refused."""
    if kind in TASKS:
        return _labelled_reading(kind, first, columns)
    asked = set(columns or ())
    numbers = [str(place) for place in range(1, len(first) + 1)]
    is_header = bool(asked) and asked <= set(first)
    if not is_header and not (asked and asked <= set(numbers)):
        is_header = len(set(first)) == len(first) and all(map(_NAME.fullmatch, first))
    names = list(first) if is_header else numbers
    if columns is not None:
        chosen: Sequence[str] | None = columns if asked <= set(names) else None
    else:
        chosen = _usual_columns(kind, names)
    if chosen is None:
        return None
    return OlderReading(is_header, tuple(map(names.index, chosen)))


def _usual_columns(kind: Kind, names: Sequence[str]) -> Sequence[str] | None:
    usual = _PAIRS if kind == "pairs" else (("text",),)
    for columns in usual:
        if set(columns) <= set(names):
            return columns
    return names if len(names) == len(usual[0]) else None


def _labelled_reading(kind: Kind, first: Sequence[str], columns: Sequence[str] | None) -> OlderReading | None:
    usual = _LABELLED[kind] if columns is None else (tuple(columns),)
    is_named = any(set(names) <= set(first) for names in usual)
    if kind == "classify" and columns is None and len(first) == 2 and not is_named:
        return OlderReading(is_header=False, places=(0, 1))
    for names in usual:
        if set(names) <= set(first):
            last = {name: place for place, name in enumerate(first)}  # of duplicates, the last one was read
            return OlderReading(is_header=True, places=tuple(last[name] for name in names))
    return None
