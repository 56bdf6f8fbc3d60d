"""Statistics of attention weights, every head at once.

Shape legend: H heads, T queries, S keys.
"""

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]
PerHead = NDArray[np.float64]


def entropy(weights: Weights) -> PerHead:
    """Mean over queries of −Σ a ln a, in nats.

    Shape:
        weights: (H, T, S)
        returns: (H,)
    """
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    result: PerHead = -(weights * logs).sum(axis=-1).mean(axis=-1)
    return result


def largest_entropy(mask: NDArray[np.bool_]) -> float:
    """Mean over queries of ln(visible keys): the entropy of weights that are all equal.

    Shape:
        mask: (T, S), True = may attend
    """
    return float(np.log(mask.sum(axis=-1)).mean())


def sharpness(weights: Weights) -> PerHead:
    """Mean over queries of the largest weight. Shape: (H, T, S) → (H,)."""
    result: PerHead = weights.max(axis=-1).mean(axis=-1)
    return result


def distance(weights: Weights) -> PerHead:
    """Mean over queries of Σ a |t − s|, in tokens; of self-attention. Shape: (H, T, T) → (H,)."""
    queries, keys = np.indices(weights.shape[1:])
    result: PerHead = (weights * abs(queries - keys)).sum(axis=-1).mean(axis=-1)
    return result


def share_at(weights: Weights, offset: int, first: int = 1) -> PerHead:
    """Mean share that query t gives to key t + offset, over the queries from `first` on that have one.

    offset 0 is the query itself, −1 the token before, 1 the token after.

    Shape:
        weights: (H, T, T)
        returns: (H,)
    """
    length = weights.shape[1]
    queries = np.arange(max(first, -offset), length - max(offset, 0))
    result: PerHead = weights[:, queries, queries + offset].mean(axis=-1)
    return result


def in_order(weights: Weights) -> PerHead:
    """Share of steps t → t + 1 at which the strongest key does not step back. Shape: (H, T, S) → (H,)."""
    strongest = weights.argmax(axis=-1)
    result: PerHead = (np.diff(strongest, axis=-1) >= 0).mean(axis=-1)
    return result


def induction(weights: Weights, start: int, period: int) -> PerHead:
    """Mean share that a token of the second copy gives to the token behind its first copy.

    Elhage et al. 2021 and Olsson et al. 2022 ("In-context Learning and Induction Heads"): in … A B … A, the head
    looks from the second A at B, which then can be predicted.

    Args:
        start: where the first copy begins. period: tokens of a copy.

    Shape:
        weights: (H, T, T)
        returns: (H,)
    """
    return share_at(weights[:, : start + 2 * period], 1 - period, first=start + period)


def duplicate(weights: Weights, start: int, period: int) -> PerHead:
    """Mean share that a token of the second copy gives to its first copy. Shape: (H, T, T) → (H,)."""
    return share_at(weights[:, : start + 2 * period], -period, first=start + period)
