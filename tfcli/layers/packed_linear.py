"""x Wᵀ + b where W changes no more: laid out once as the CPU's kernels read it, or kept in eight bits."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_TYPICAL_ROWS = 32
"""Rows of x that the layout is chosen for; a layout for few rows is slower with many, and this one as fast with one."""

_INT8_COLUMNS = 16
"""The eight-bit kernel reads so many columns at a time, and past the end where they do not come out even."""


class PackedLinear(nn.Module):
    """The product on oneDNN's kernels, with W in blocks of their own.

    Args:
        weight: W, float32 or bfloat16, on the CPU.

    Shape:
        weight: (out, in); bias: (out,)
        x: (…, in) → (…, out)
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _TYPICAL_ROWS)
        self.bias = None if bias is None else bias.detach().to(weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.default(x, self.packed, self.bias, "none", [], "")


class Int8Linear(nn.Module):
    """The product with W rounded to eight bits, each row by a scale of its own: W[i] ≈ s[i] q[i], s[i] = max |W[i]| /
    127 (Dettmers et al. 2022, section 2.1, by rows and of weights alone).

    Shape:
        weight: (out, in); bias: (out,)
        x: (…, in) → (…, out), in the precision of x; the products read x in bfloat16
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
        rows = x.reshape(-1, x.shape[-1]).bfloat16()
        if self.fill:
            rows = F.pad(rows, (0, self.fill))
        product = torch.ops.aten._weight_int8pack_mm.default(rows, self.quantized, self.scale).to(x.dtype)
        return (product if self.bias is None else product + self.bias).view(*x.shape[:-1], -1)
