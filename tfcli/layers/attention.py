"""Scaled dot-product attention, softmax(scores) V (Vaswani et al. 2017, equation 1), on two paths.

The explicit path is the formula line by line and gives the weights; the fused path is PyTorch's kernel and is fast. A
test holds them equal. Shape legend: B batch, H heads, T queries, S keys, Dh size of a head.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def explicit_attention(
    scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Attention as the lectures write it. A query that may attend to nothing gets zeros, not NaN.

    Shape:
        scores: (B, H, T, S)
        value: (B, H, S, Dh)
        mask: broadcastable to (B, H, T, S), True = may attend
        returns: output (B, H, T, Dh) and weights (B, H, T, S), before dropout
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # a row of −∞ alone is NaN after the softmax
    return F.dropout(weights, dropout, training=dropout > 0) @ value, weights


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """The same for the scores Q Kᵀ · scale + bias, on PyTorch's fused kernel.

    `causal` stands for the triangular mask where T = S, which is faster.

    Shape:
        query: (B, H, T, Dh)
        key, value: (B, H, S, Dh)
        mask: broadcastable to (B, H, T, S), True = may attend
        bias: broadcastable to (B, H, T, S), added to the scores
        returns: (B, H, T, Dh)
    """
    assert not (causal and (mask is not None or bias is not None)), "one mask, not two"
    if bias is None or mask is None:
        both = mask if bias is None else bias
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=both, is_causal=causal, dropout_p=dropout, scale=scale
        )
    both = masked(bias, mask)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=both, dropout_p=dropout, scale=scale)
    return without_blind_rows(output, mask)


def masked(bias: Tensor, mask: Tensor) -> Tensor:
    """A bias that leaves out what is masked: by half of the lowest number, not −∞, since a row that sees nothing must
    give no NaN, here and in its gradient.

    Shape:
        bias, mask: broadcastable to (B, H, T, S); so is what is returned
    """
    return bias.masked_fill(~mask, torch.finfo(bias.dtype).min / 2)


def without_blind_rows(output: Tensor, mask: Tensor) -> Tensor:
    """Zeros where a query may attend to nothing.

    Shape:
        output: (B, H, T, Dh); mask: broadcastable to (B, H, T, S)
    """
    return output.masked_fill(~mask.any(-1, keepdim=True), 0.0)
