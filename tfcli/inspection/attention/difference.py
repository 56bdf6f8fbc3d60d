"""The difference of two attention maps: two heads, two texts, two models."""

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import UsageError
from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionDifference, AttentionRecord

_Place = tuple[int, int]

LARGEST = 8
"""Differences that are listed unless another number is asked for."""


def difference(
    record: AttentionRecord,
    other: AttentionRecord,
    places: tuple[_Place, _Place],
    names: tuple[str, str],
    *,
    largest: int = LARGEST,
) -> AttentionDifference:
    """The weights of a layer and head of `record` less those of a layer and head of `other`, cell by cell.

    Args:
        places: the layer and head of each side. names: what the two sides are called.
        largest: list so many differences that are not 0, the one furthest from 0 first.

    Raises:
        UsageError: the two do not have as many queries and keys.
    """
    if record.weights.shape[2:] != other.weights.shape[2:]:
        raise UsageError(
            f"{names[0]} has {_size(record)} and {names[1]} {_size(other)}: a difference needs as many",
            "choose sources of equally many tokens, with one --target for both, or --kind encoder_self"
            if record.kind == "cross"
            else "choose texts of equally many tokens",
        )
    weights, other_weights = record.weights[places[0]], other.weights[places[1]]
    return AttentionDifference(
        kind=record.kind,
        names=names,
        place=record.place(*places[0]) if places[0] == places[1] else "",
        query_tokens=record.query_tokens,
        key_tokens=record.key_tokens,
        other_query_tokens=other.query_tokens,
        other_key_tokens=other.key_tokens,
        weights=frozen(weights),
        other_weights=frozen(other_weights),
        mask=frozen(~(record.hidden(*places[0]) & other.hidden(*places[1])), np.bool_),
        largest=_furthest(np.asarray(weights - other_weights), largest),
        query_positions=record.rows,
        key_positions=record.columns,
    )


def require_same_tokens(record: AttentionRecord, other: AttentionRecord, name: str) -> None:
    """Refuse another model that cuts the text into other tokens: its rows and columns would be other ones.

    Raises:
        UsageError: naming the first token that differs.
    """
    for tokens, others in ((record.query_tokens, other.query_tokens), (record.key_tokens, other.key_tokens)):
        if tokens != others:
            pairs = zip((*tokens, "the end"), (*others, "the end"), strict=False)
            at, (one, two) = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
            raise UsageError(
                f"{name} reads other tokens: token {at} is {two!r}, and here {one!r}",
                "compare runs with one tokenizer",
            )


def _furthest(differences: NDArray[np.float32], count: int) -> tuple[tuple[int, int], ...]:
    size = np.abs(differences)
    order = np.argsort(-size, axis=None, kind="stable")[: min(count, int((size > 0).sum()))]
    rows, columns = np.unravel_index(order, differences.shape)
    return tuple(zip(rows.tolist(), columns.tolist(), strict=True))


def _size(record: AttentionRecord) -> str:
    queries, keys = record.weights.shape[2:]
    return f"{keys} source and {queries} target tokens" if record.kind == "cross" else f"{queries} tokens"
