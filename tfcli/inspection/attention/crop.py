"""A part of a text's attention: some queries, some keys, and the first keys, which many heads rest on."""

import re
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import UsageError, shortened
from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionRecord
from tfcli.tokenization.roles import MASK_NAMES

_RANGE = re.compile(r"(-?\d{1,18})?:(-?\d{1,18})?")
Item = TypeVar("Item")


def positions_of(option: str, text: str, count: int) -> range:
    """The positions that "a:b" means, from a up to and without b; from the end where negative, as in Python.

    Raises:
        UsageError: it is no range, or empty, or not within 0 to `count`.
    """
    found = _RANGE.fullmatch(text.strip())
    if not found:
        raise UsageError(
            f"{option} {shortened(text)!r} is no range", f"write {option} a:b, from position a up to b, such as 0:20"
        )
    first, last = (None if side is None else int(side) for side in found.groups())
    start = _from_end(first, count, 0)
    stop = _from_end(last, count, count)
    if not (0 <= start <= count and 0 <= stop <= count):
        raise UsageError(f"{option} {text} lies outside the {count} there are", f"choose within 0:{count}")
    if start >= stop:
        raise UsageError(f"{option} {text} holds nothing: there are {count}", f"choose within 0:{count}")
    return range(start, stop)


def cropped(
    record: AttentionRecord, rows: str | None = None, columns: str | None = None, first: int = 0
) -> AttentionRecord:
    """The record with these queries and keys alone; each keeps its position.

    Args:
        rows: queries, as "a:b"; None: all. columns: keys.
        first: so many first keys stay, whatever `columns` says.

    Raises:
        UsageError: what `positions_of` refuses.
    """
    queries, keys = len(record.query_tokens), len(record.key_tokens)
    of_rows = range(queries) if rows is None else positions_of("--rows", rows, queries)
    of_columns = range(keys) if columns is None else positions_of("--columns", columns, keys)
    kept = [*range(min(first, keys)), *(key for key in of_columns if key >= first)]
    if len(of_rows) == queries and len(kept) == keys:
        return record

    cells = np.ix_(of_rows, kept)
    return replace(
        record,
        query_tokens=_at(record.query_tokens, of_rows),
        key_tokens=_at(record.key_tokens, kept),
        weights=_cells(record.weights, cells),
        scores=None if record.scores is None else _cells(record.scores, cells),
        mask=None if record.mask is None else frozen(record.mask[cells], np.bool_),
        bias=None if record.bias is None else _cells(record.bias, cells),
        query_positions=_at(record.rows, of_rows) if len(of_rows) < queries else record.query_positions,
        key_positions=_at(record.columns, kept) if len(kept) < keys else record.key_positions,
    )


def row_of(record: AttentionRecord, name: str) -> int:
    """The query that is spelled so: a token as tables label it, else a word, which is its last token.

    Args:
        name: "bank", or "bank:2" for the second of them.

    Raises:
        UsageError: there is none, or there are several, whose names it lists.
    """
    places = _named(record, name)
    word, _, number = name.rpartition(":")
    if not places and number.isdecimal() and (of_word := _named(record, word)):
        if not 1 <= int(number[:18]) <= len(of_word):
            raise UsageError(
                f"The text has {word!r} {len(of_word)} times, and no {name}", f"choose {_choices(word, of_word)}"
            )
        return of_word[int(number) - 1]
    if len(places) > 1:
        raise UsageError(f"--query {name!r} is there {len(places)} times", f"choose {_choices(name, places)}")
    if not places:
        words = [word.text for word in record.query_words] or [token.strip() for token in record.query_tokens]
        listed = ", ".join(dict.fromkeys(word for word in words if word.strip()))
        raise UsageError(f"--query {shortened(name)!r} is no word of the text", f"choose one of {listed}")
    return places[0]


def _named(record: AttentionRecord, name: str) -> list[int]:
    if name in MASK_NAMES and name not in record.query_tokens:
        name = next((one for one in MASK_NAMES if one in record.query_tokens), name)
    tokens = [
        at for at, token in enumerate(record.query_tokens) if name in (token, token.strip(), token.replace(" ", "·"))
    ]
    return tokens or [word.places[-1] for word in record.query_words if word.text == name]


def _choices(name: str, places: list[int]) -> str:
    return ", ".join(f"{name}:{number} (position {at})" for number, at in enumerate(places, 1))


def _cells(values: NDArray[np.float32], cells: tuple[NDArray[np.intp], ...]) -> NDArray[np.float32]:
    return frozen(values[:, :, cells[0], cells[1]])


def _from_end(position: int | None, count: int, default: int) -> int:
    if position is None:
        return default
    return position + count if position < 0 else position


def _at(items: tuple[Item, ...], positions: "range | list[int]") -> tuple[Item, ...]:
    return tuple(items[position] for position in positions)
