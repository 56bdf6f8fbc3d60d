"""The words around an attention picture, the same in the terminal, in SVG and in HTML."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfcli.records.attention import AttentionKind, AttentionRecord
from tfcli.render.numbers import weight
from tfcli.render.safe import shortened, token_label

_LONGEST = 24

KIND_NAMES: dict[AttentionKind, str] = {
    "encoder_self": "encoder self-attention",
    "decoder_self": "decoder self-attention",
    "cross": "cross-attention",
}

SIDES: dict[AttentionKind, str] = {
    "encoder_self": "rows: queries, columns: keys, both the text",
    "decoder_self": "rows: queries, columns: keys, both the text so far",
    "cross": "rows: queries (target), columns: keys (source)",
}


def title(record: AttentionRecord, layer: int, head: int) -> str:
    """What is shown, as one line."""
    return f"Attention weights · {KIND_NAMES[record.kind]} · {record.place(layer, head)}"


def labels(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Tokens that are safe to print on one line."""
    return tuple(token_label(token) for token in tokens)


def row_sums(weights: NDArray[np.float32]) -> str:
    """What the rows sum to, as measured.

    Shape: weights (T, S).
    """
    sums = weights.sum(axis=1, dtype=np.float64)
    if np.allclose(sums, 1.0, atol=5e-3):
        return "each row sums to 1"
    return f"rows sum to {sums.min():.2f} … {sums.max():.2f}"


def head_sums(record: AttentionRecord, layer: int, head: int) -> str:
    """As `row_sums`, of one head, and of what of it is shown."""
    part = " in the columns shown" if record.key_positions else ""
    return row_sums(record.weights[layer, head]) + part


HABITS = "beyond the first word, punctuation, itself and its neighbours"


def strongest(record: AttentionRecord, layer: int, head: int) -> tuple[int, int] | None:
    """The row and the column of the strongest weight that says something of the text; None where there is none."""
    telling = record.telling
    if record.kind == "cross":
        telling[:, np.array(record.columns) == 0] = False
    weights = record.weights[layer, head] * telling
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    return (int(row), int(column)) if weights.any() else None


def look_at(record: AttentionRecord, layer: int, head: int) -> str:
    """What `strongest` finds in words; "" where that is nothing."""
    if (found := strongest(record, layer, head)) is None:
        return ""
    row, column = found
    edge = f"{token_at(record.query_tokens, record.rows, row)} → {token_at(record.key_tokens, record.columns, column)}"
    where = "" if record.kind == "cross" else f", the strongest {HABITS}"
    value = float(record.weights[layer, head, row, column])
    return f"see {edge}: {weight(value) if value >= 0.005 else f'{value:.1g}'}{where}"


def token_at(tokens: tuple[str, ...], positions: Sequence[int], index: int) -> str:
    """A token's label, at most 24 cells wide, with its position."""
    return f"{shortened(token_label(tokens[index]), _LONGEST)} ({positions[index]})"
