"""Attention scores: how well each query and each key fit, before the softmax.

Shape legend: B batch, H heads, T queries, S keys, Dh size of a head.
"""

import torch
from torch import Tensor, nn

from tfcli.recipe.model import ModelSection


class Score(nn.Module):
    """One number for every query and key.

    scaled_dot: q · k / √Dh (Vaswani et al. 2017, equation 1). dot: q · k (Luong et al. 2015, 3.1). additive:
    v · tanh(q + k), with a learned v a head (Bahdanau et al. 2015, A.1.2; its W and U are the query and key
    projections). A cap c makes it c · tanh(score / c) (Gemma Team 2024, section 2).

    Shape:
        query: (B, H, T, Dh)
        key: (B, H, S, Dh)
        returns: (B, H, T, S)
    """

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.scale = model.size_per_head**-0.5 if model.attention_score == "scaled_dot" else 1.0
        self.cap = model.attention_softcap
        additive = model.attention_score == "additive"
        self.weight = nn.Parameter(torch.empty(model.num_heads, model.size_per_head)) if additive else None

    @property
    def has_kernel(self) -> bool:
        """Whether PyTorch's fused kernel computes this score."""
        return self.weight is None and self.cap is None

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        if self.weight is None:
            scores = dot_scores(query, key, self.scale)
        else:
            meetings = torch.tanh(query[..., :, None, :] + key[..., None, :, :])  # (B, H, T, S, Dh)
            scores = torch.einsum("bhtsd,hd->bhts", meetings, self.weight)
        return scores if self.cap is None else self.cap * torch.tanh(scores / self.cap)


def dot_scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Q Kᵀ · scale.

    Shape:
        query: (B, H, T, Dh); key: (B, H, S, Dh)
        returns: (B, H, T, S)
    """
    return query @ key.transpose(-2, -1) * scale
