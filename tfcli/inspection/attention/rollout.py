"""All heads of attention in one: their mean, and attention rollout (Abnar and Zuidema 2020)."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import UsageError
from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionRecord

ROLLOUT = "R₀ = I; Rₗ = Ãₗ · Rₗ₋₁, Ã = (A + I) / 2, A the mean of a layer's heads"


def layer_means(record: AttentionRecord) -> AttentionRecord:
    """A layer's heads as their mean.

    Shape:
        weights: (L, H, T, S) to (L, 1, T, S)
    """
    layers, heads = record.weights.shape[:2]
    names = tuple(f"layer {layer}, mean of {_count(heads, 'head')}" for layer in range(layers))
    return _combined(record, record.weights.mean(axis=1, keepdims=True, dtype=np.float64), names)


def mean_of_all(record: AttentionRecord) -> AttentionRecord:
    """Every head of every layer as their mean.

    Shape:
        weights: (L, H, T, S) to (1, 1, T, S)
    """
    layers, heads = record.weights.shape[:2]
    name = f"mean of {_count(layers, 'layer')} × {_count(heads, 'head')}"
    return _combined(record, record.weights.mean(axis=(0, 1), keepdims=True, dtype=np.float64), (name,))


def rollout(record: AttentionRecord) -> AttentionRecord:
    """How much of each token's vector comes from each token of the text, by every layer's end.

    A residual connection carries half, the attention's mean head the other half: Ã = ½ A + ½ I, its rows renormalised;
    the product over the layers passes shares on (Abnar and Zuidema 2020, section 3). The entry of layer l is the
    product of the layers 0 to l.

    Shape:
        weights: (L, H, T, T) to (L, 1, T, T)

    Raises:
        UsageError: of cross-attention, whose queries and keys are different texts.
    """
    if record.kind == "cross":
        raise UsageError(
            "Rollout multiplies the layers of one stack, and cross-attention looks into another one",
            "choose --kind encoder_self or decoder_self",
        )
    mean = record.weights.mean(axis=1, dtype=np.float64)
    carried = (mean + np.eye(mean.shape[-1])) / 2
    carried /= carried.sum(axis=-1, keepdims=True)
    products = [carried[0]]
    for layer in carried[1:]:
        products.append(layer @ products[-1])
    names = ("rollout of layer 0", *(f"rollout through layers 0 to {layer}" for layer in range(1, len(mean))))
    whole = replace(record, mask=None)  # what a window hides in one layer is reached through two
    return _combined(whole, np.stack(products)[:, None], names, ROLLOUT)


def _combined(
    record: AttentionRecord, weights: NDArray[np.float64], names: tuple[str, ...], formula: str = ""
) -> AttentionRecord:
    last = (len(names) - 1, 0)
    return replace(record, weights=frozen(weights), focus=last, scores=None, bias=None, names=names, formula=formula)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
