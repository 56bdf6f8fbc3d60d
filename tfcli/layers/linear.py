"""Linear layers, x Wᵀ + b: for training in mixed precision, prepacked for inference, and quantized to int8."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from tfcli.layers.kernels import biased_product, has_bfloat16_products, int8_product, packed


def for_products(x: Tensor) -> Tensor:
    """`x` as matrix products read it. Autocast would cast it again for each of them, there and back.

    Shape:
        x: any, and the same is returned
    """
    if x.is_meta:  # a tensor of a shape alone has no precision to save on, and PyTorch no answer for it
        return x
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


_INT8_COLUMNS = 16
"""The int8 kernel reads so many columns at a time, and past the end where they do not come out even."""


class Linear(nn.Linear):
    """PyTorch's own, with another way to the same numbers for training in bfloat16 on a CPU: the matrix product adds
    the bias itself, which PyTorch would first write into every row."""

    def forward(self, x: Tensor) -> Tensor:
        """X Wᵀ + b; x: (…, in) → (…, out)."""
        if self.bias is None or not (
            self.training and x.is_cpu and torch.is_autocast_enabled("cpu") and has_bfloat16_products()
        ):
            return F.linear(x, self.weight, self.bias)
        rows = for_products(x).flatten(0, -2)
        return _BiasedProduct.apply(rows, self.weight, self.bias).unflatten(0, x.shape[:-1])


class _BiasedProduct(torch.autograd.Function):
    """Y = X Wᵀ + b; with a gradient G of Y: dX = G W, dW = Gᵀ X, db = the sum of the rows of G."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        matrix = weight.to(rows.dtype)
        ctx.save_for_backward(rows, matrix)
        return biased_product(rows, matrix, bias.to(rows.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        d_weight = (gradient.T @ rows).float()
        return gradient @ matrix, d_weight, gradient.sum(0).float()


class PrepackedLinear(nn.Module):
    """The product with a weight that changes no more, laid out once as oneDNN's kernels read it.

    Args:
        weight: W, float32 or bfloat16, on the CPU.

    Shape:
        weight: (out, in); bias: (out,)
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.packed = packed(weight)
        self.bias = None if bias is None else bias.detach().to(weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """X Wᵀ + b; x: (…, in) → (…, out)."""
        return biased_product(x, self.packed, self.bias)


class Int8Linear(nn.Module):
    """Quantization to int8: W rounded to eight bits, each row by a scale of its own: W[i] ≈ s[i] q[i], s[i] = max
    |W[i]| / 127 (Dettmers et al. 2022, section 2.1, by rows and of weights alone).

    Shape:
        weight: (out, in); bias: (out,)
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        weight = weight.detach().float()
        self.fill = -weight.shape[1] % _INT8_COLUMNS
        # The kernel wants scales in bfloat16: rounded before they divide, they add no error of their own.
        self.scale = (weight.abs().amax(1) / 127).clamp(min=torch.finfo(torch.bfloat16).tiny).bfloat16()
        quantized = (weight / self.scale[:, None]).round().clamp(-127, 127).to(torch.int8)
        self.quantized = F.pad(quantized, (0, self.fill))
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """X Wᵀ + b in the precision of x, of products in bfloat16; x: (…, in) → (…, out)."""
        rows = x.reshape(-1, x.shape[-1]).bfloat16()
        if self.fill:
            rows = F.pad(rows, (0, self.fill))
        product = int8_product(rows, self.quantized, self.scale).to(x.dtype)
        return (product if self.bias is None else product + self.bias).view(*x.shape[:-1], -1)
