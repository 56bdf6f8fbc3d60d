"""Softmax saturation: why scores are divided by √D_k (Vaswani et al. 2017, footnote 4; Bishop 2024, 12.1.5)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.inspection.scaling import ScalingRecord, ScalingRow, SoftmaxState
from tfcli.layers.attention import Score
from tfcli.recipe.model import ModelSection

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)

_AT_ONCE = 1 << 22
"""Numbers of keys drawn at a time."""


def measured_scaling(queries: int, keys: int, seed: int, sizes: Sequence[int] = SIZES) -> ScalingRecord:
    """Draw queries from N(0, 1), each with keys of its own; look at their products and at the softmax over them."""
    generator = torch.Generator().manual_seed(seed)
    rows = tuple(_row(size, scores_of(size, queries, keys, generator)) for size in sizes)
    return ScalingRecord(queries, keys, seed, rows)


def scores_of(d_k: int, queries: int, keys: int, generator: torch.Generator) -> Tensor:
    """qᵀk of each query with keys of its own: (queries, keys)."""
    step = max(1, _AT_ONCE // (keys * d_k))
    parts = []
    for start in range(0, queries, step):
        count = min(step, queries - start)
        query = torch.randn(count, d_k, 1, generator=generator)
        parts.append((torch.randn(count, keys, d_k, generator=generator) @ query)[..., 0])
    return torch.cat(parts)


def softmax_state(scores: Tensor) -> SoftmaxState:
    """The weights of each row of scores, in the mean. |diag(w) − w wᵀ|² = Σ_i w_i² ((1 − w_i)² + Σ_j≠i w_j²): sums of
    the other weights, and no differences from 1, so that it stays exact where one weight is nearly 1."""
    weights = torch.softmax(scores.double(), dim=-1)
    squares = weights**2
    gradient = (squares * (_of_others(weights) ** 2 + _of_others(squares))).sum(-1).sqrt()
    entropy = torch.special.entr(weights).sum(-1)
    return SoftmaxState(float(weights.amax(-1).mean()), float(gradient.mean()), float(entropy.mean()))


def _of_others(values: Tensor) -> Tensor:
    """Σ_j≠i of each row."""
    before = F.pad(values, (1, 0))[..., :-1].cumsum(-1)
    after = F.pad(values, (0, 1))[..., 1:].flip(-1).cumsum(-1).flip(-1)
    return before + after


def _row(d_k: int, scores: Tensor) -> ScalingRow:
    # The mean is known to be 0. Products of one query are alike in size, so that the query is what was drawn.
    of_queries = scores.double().square().mean(-1)
    error = float(of_queries.std()) / len(of_queries) ** 0.5
    scaled = scores * Score(ModelSection(d_model=d_k, num_heads=1)).scale  # as a model's attention scales them
    states = softmax_state(scores), softmax_state(scaled)
    return ScalingRow(d_k, float(of_queries.mean()), error, float(scaled.double().square().mean()), *states)
