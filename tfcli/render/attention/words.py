"""The words around an attention picture, the same in the terminal, in SVG and in HTML."""

import numpy as np
from numpy.typing import NDArray

from tfcli.records.attention import AttentionKind, AttentionRecord
from tfcli.render.safe import token_label

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
    return f"Attention weights · {KIND_NAMES[record.kind]} · layer {layer}, head {head}"


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


def without_masked(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights with NaN where they are exactly 0: the softmax gives that to what a query may not look at."""
    return np.where(weights == 0.0, np.float32(np.nan), weights)
