"""x Wᵀ + b, with the bias added by the matrix product itself where PyTorch would first write it into every row."""

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from tfcli.layers.autocast import for_products


class Linear(nn.Linear):
    """PyTorch's own, with another way to the same numbers for training in bfloat16 on a CPU.

    Shape:
        x: (…, in) → (…, out)
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.bias is None or not (
            self.training and x.is_cpu and torch.is_autocast_enabled("cpu") and _has_product()
        ):
            return F.linear(x, self.weight, self.bias)
        rows = for_products(x).flatten(0, -2)
        return _BiasedProduct.apply(rows, self.weight, self.bias).unflatten(0, x.shape[:-1])


@functools.cache
def _has_product() -> bool:
    """Whether oneDNN is there and multiplies in bfloat16 on this processor."""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


class _BiasedProduct(torch.autograd.Function):
    """Y = X Wᵀ + b; with a gradient G of Y: dX = G W, dW = Gᵀ X, db = the sum of the rows of G."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        matrix = weight.to(rows.dtype)
        ctx.save_for_backward(rows, matrix)
        return torch.ops.mkldnn._linear_pointwise(rows, matrix, bias.to(rows.dtype), "none", [], "")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        d_weight = (gradient.T @ rows).float()
        return gradient @ matrix, d_weight, gradient.sum(0).float()
