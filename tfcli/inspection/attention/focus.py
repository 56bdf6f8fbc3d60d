"""Which attention head to show first: the one that says most about a text."""

from dataclasses import replace

import numpy as np

from tfcli.errors import UsageError
from tfcli.records.attention import AttentionRecord


def focused(record: AttentionRecord, layer: int | None = None, head: int | None = None) -> AttentionRecord:
    """The record with the layer and head to look at first: those asked for; of what is left open, the telling ones.

    Raises:
        UsageError: the model has no such layer or head.
    """
    layers, heads = record.weights.shape[:2]
    require_place("layer", layer, layers)
    require_place("head", head, heads)
    if layer is None or head is None:
        found = telling_head(record.narrowed(layer, head))
        layer, head = found[0] if layer is None else layer, found[1] if head is None else head
    return replace(record, focus=(layer, head))


def require_place(name: str, index: int | None, count: int) -> None:
    """Refuse a layer or a head that a model with `count` of them does not have.

    Raises:
        UsageError: naming both numbers.
    """
    if index is not None and index >= count:
        raise UsageError(f"There is no {name} {index}: the model has {count}", f"choose 0 to {count - 1}")


def telling_head(record: AttentionRecord) -> tuple[int, int]:
    """The layer and head that says most about a text.

    Many heads look at the first word, at punctuation, at the token itself or at a neighbour, whatever the text. The
    head with the largest mean (over queries) of its strongest weight elsewhere has found something in it. In
    cross-attention, it is the head with the sharpest rows on words.
    """
    strongest = (record.weights * record.telling).max(axis=-1).mean(axis=-1)
    layer, head = np.unravel_index(strongest.argmax(), strongest.shape)
    return int(layer), int(head)
