"""Statistics across tokens, as the note in UDL's lecture has them: what no norm of a transformer does."""

import torch
from torch import Tensor, nn

from tfcli.layers.norms import LayerNorm, RMSNorm


def across_tokens(x: Tensor, eps: float, *, centred: bool = True) -> Tensor:
    """Every dimension less its mean over the tokens, divided by √(its variance over them + ε).

    Args:
        centred: False: the mean stays, and the mean square stands for the variance, as in RMSNorm.

    Shape: (…, T, D) → (…, T, D)
    """
    x = x - x.mean(dim=-2, keepdim=True) if centred else x
    return x * torch.rsqrt(x.square().mean(dim=-2, keepdim=True) + eps)


class NormAcrossTokens(nn.Module):
    """A norm with its ε, its gain and its bias, whose statistics are those across tokens."""

    def __init__(self, norm: LayerNorm | RMSNorm) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (B, T, D) → (B, T, D)"""
        x = across_tokens(x, self.norm.eps, centred=isinstance(self.norm, LayerNorm))
        if self.norm.weight is not None:
            x = x * self.norm.weight
        bias = getattr(self.norm, "bias", None)
        return x if bias is None else x + bias
