"""Which head to show first."""

import numpy as np
from numpy.typing import NDArray

from tfcli.records.attention import AttentionKind


def telling_head(kind: AttentionKind, weights: NDArray[np.float32]) -> tuple[int, int]:
    """The layer and head that says most about a text.

    In self-attention, many heads look at the first token, at the token itself or at a neighbour, whatever the text.
    The head with the largest mean (over queries) of its strongest weight elsewhere has found something in it. In
    cross-attention, where there are no such habits, it is the head with the sharpest rows.

    Shape:
        weights: (L, H, T, S)
    """
    elsewhere = np.array(weights)
    if kind != "cross":
        queries, keys = np.indices(weights.shape[2:])
        elsewhere[..., (keys == 0) | (abs(queries - keys) <= 1)] = 0
    strongest = elsewhere.max(axis=-1).mean(axis=-1)
    layer, head = np.unravel_index(strongest.argmax(), strongest.shape)
    return int(layer), int(head)
