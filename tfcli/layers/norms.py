"""Layer normalisation and RMSNorm: statistics over the numbers of one token's vector, never across tokens."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.recipe.model import ModelSection


class LayerNorm(nn.Module):
    """(x − mean) / √(var + ε) · gain + bias, with the biased variance (Ba et al. 2016, equation 4)."""

    def __init__(self, size: int, eps: float, *, gain: bool = True, bias: bool = True) -> None:
        super().__init__()
        self.size, self.eps = size, eps
        self.weight = nn.Parameter(torch.ones(size)) if gain else None
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector on its own; x: (…, size)."""
        return F.layer_norm(x, (self.size,), self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · gain (Zhang and Sennrich 2019, equation 4)."""

    def __init__(self, size: int, eps: float, *, gain: bool = True) -> None:
        super().__init__()
        self.size, self.eps = size, eps
        self.weight = nn.Parameter(torch.ones(size)) if gain else None

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector on its own; x: (…, size)."""
        # Under autocast, queries and keys are bfloat16 and the gain is not: mixed, PyTorch takes a slow path.
        return F.rms_norm(x, (self.size,), None if self.weight is None else self.weight.to(x.dtype), self.eps)


def build_norm(model: ModelSection, size: int | None = None) -> nn.Module:
    """The norm that the recipe names, of vectors of `size` numbers, or of D."""
    size = model.d_model if size is None else size
    if model.norm == "rmsnorm":
        return RMSNorm(size, model.norm_eps, gain=model.norm_affine)
    return LayerNorm(size, model.norm_eps, gain=model.norm_affine, bias=model.has_norm_bias)
