"""Normalisation of each token's vector: statistics over D alone, never across tokens."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.recipe.model import ModelSection


class LayerNorm(nn.Module):
    """(x − mean) / √(var + ε) · gain + bias, with the biased variance (Ba et al. 2016, equation 4).

    Shape:
        x: (…, D), each vector on its own
    """

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · gain (Zhang and Sennrich 2019, equation 4).

    Shape:
        x: (…, D), each vector on its own
    """

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def build_norm(model: ModelSection) -> nn.Module:
    """The norm that the recipe names."""
    return {"layernorm": LayerNorm, "rmsnorm": RMSNorm}[model.norm](model.d_model, model.norm_eps)
