"""Attention a sequence at a time: softmax(Q Kᵀ · scale + bias) V and its gradient, for processors with a cache.

The scores of one sequence fit into the cache where those of a batch do not, and each of the matrix products runs at the
speed of a plain one. Shape legend: H heads, T queries, S keys, Dh size of a head; B sequences of a batch.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tfcli.layers.kernels import dropped_out, softmax_gradient

CACHED_SCORES = 1 << 20
"""Scores worked on at a time: two megabytes of bfloat16, what stays in reach of two cores."""


def row_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, *, scale: float, dropout: float) -> Tensor:
    """The attention of each sequence after the other. The bias gets no gradient.

    Shape:
        query: (B, H, T, Dh)
        key, value: (B, H, S, Dh)
        bias: (B or 1, H or 1, T, S), added to the scores; a mask is a bias of −∞
        returns: (B, H, T, Dh)
    """
    return _RowAttention.apply(query, key, value, bias, scale, dropout)


class _RowAttention(torch.autograd.Function):
    """With P = softmax(A), O = P V and a gradient G of O: dV = Pᵀ G, dP = G Vᵀ, dA = P ⊙ (dP − rowsum(P ⊙ dP)),
    dQ = dA K · scale, dK = dAᵀ Q · scale (the chain rule; Dao et al. 2022, appendix B.2)."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scale: float, dropout: float
    ) -> Tensor:
        output = _heads_last(query)
        kept: list[Tensor] = []
        for some in _portions(query, key):
            weights = torch.baddbmm(_portion(bias, some), query[some], key[some].transpose(1, 2), alpha=scale)
            weights = torch.softmax(weights, dim=-1, dtype=weights.dtype)  # on a GPU, autocast would make it float32
            kept.append(weights)
            if dropout:
                weights, survivors = dropped_out(weights, dropout)
                kept.append(survivors)
            output[some] = torch.bmm(weights, value[some])
        ctx.save_for_backward(query, key, value, *kept)
        ctx.scale, ctx.dropout = scale, dropout
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *saved = ctx.saved_tensors
        kept = iter(saved)
        d_query, d_key, d_value = _heads_last(query), _heads_last(key), _heads_last(value)
        for some in _portions(query, key):
            weights = mixed = next(kept)
            d_weights = torch.bmm(gradient[some], value[some].transpose(1, 2))
            if ctx.dropout:
                survivors = next(kept).to(weights.dtype).div_(1 - ctx.dropout)
                mixed, d_weights = weights * survivors, d_weights * survivors
            d_value[some] = torch.bmm(mixed.transpose(1, 2), gradient[some])
            d_scores = softmax_gradient(d_weights, weights).mul_(ctx.scale)
            d_query[some] = torch.bmm(d_scores, key[some])
            d_key[some] = torch.bmm(d_scores.transpose(1, 2), query[some])
        return d_query, d_key, d_value, None, None, None


def _portions(query: Tensor, key: Tensor) -> Iterator[tuple[int, slice]]:
    """A sequence and as many of its heads at a time as have scores for the cache."""
    batch, heads, length, _ = query.shape
    at_once = max(1, min(heads, CACHED_SCORES // (length * key.shape[2])))
    for sequence in range(batch):
        for first in range(0, heads, at_once):
            yield sequence, slice(first, first + at_once)


def _portion(bias: Tensor, some: tuple[int, slice]) -> Tensor:
    """What is added to the scores of a portion; one row or one head may stand for all."""
    sequence, heads = some
    of_sequence = bias[sequence if len(bias) > 1 else 0]
    return of_sequence[heads] if len(of_sequence) > 1 else of_sequence


def _heads_last(like: Tensor) -> Tensor:
    """An empty (B, H, T, Dh) whose heads lie side by side in memory, as the next matrix product wants them."""
    batch, heads, length, size = like.shape
    return like.new_empty(batch, length, heads, size).transpose(1, 2)
