"""Attention weights with the tokens they belong to."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

AttentionKind = Literal["encoder_self", "decoder_self", "cross"]


@dataclass(frozen=True)
class AttentionRecord:
    """One kind of attention of one text.

    `weights[layer, head, query, key]` are after the softmax: each row over `key` sums to 1. `scores` are before it and
    before the mask, so that hidden keys have one too;
    None: not kept. `focus` is the layer and the head to look at first.

    Shape:
        weights, scores: (L, H, T, S)
    """

    kind: AttentionKind
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
    focus: tuple[int, int] = (0, 0)
    scores: NDArray[np.float32] | None = None
