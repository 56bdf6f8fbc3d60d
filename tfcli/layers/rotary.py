"""Rotary positions (Su et al. 2021): a query at position m and a key at n meet at an angle that depends on n − m alone.

Pairs of dimensions are turned: pair i by the angle position · base^(−2i/Dh). The paper pairs neighbours ("interleaved":
2i with 2i + 1); Llama pairs dimensions half a head apart ("halves": i with i + Dh/2), which is the same up to the order
of the rows of W^q and W^k.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tfcli.layers.span import Span
from tfcli.recipe.model import PositionLayout


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines for every dimension.

    Shape:
        cosines, sines: (T, Dh), or (B, 1, T, Dh) where every text has positions of its own
    """

    cosines: Tensor
    sines: Tensor
    layout: PositionLayout = "halves"

    def at(self, span: Span) -> "Rotation":
        """Those of some positions."""
        cosines, sines = span.rows(self.cosines), span.rows(self.sines)
        if span.left is not None:
            cosines, sines = cosines[:, None], sines[:, None]  # the same for all heads
        return Rotation(cosines, sines, self.layout)


def rotation(
    positions: Tensor, head_dim: int, base: float, *, layout: PositionLayout = "halves", scaling: float = 1.0
) -> Rotation:
    """Cosines and sines of the angles at some positions (Su et al. 2021, equation 15).

    Args:
        scaling: what positions are divided by.

    Shape:
        positions: (T,)
        returns: two tables of (T, Dh), float32
    """
    exponents = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float64) / head_dim
    angles = positions.double()[:, None] / scaling * base**-exponents
    angles = angles.repeat(1, 2) if layout == "halves" else angles.repeat_interleave(2, dim=1)
    return Rotation(angles.cos().float(), angles.sin().float(), layout)


def rotate(x: Tensor, by: Rotation | None) -> Tensor:
    """Turn each pair (a, b) into (a cos − b sin, b cos + a sin); unchanged where there is no rotation.

    Shape:
        x: (B, H, T, Dh)
        returns: (B, H, T, Dh)
    """
    if by is None:
        return x
    if by.layout == "halves":
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
    else:
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return x * by.cosines.to(x.dtype) + turned * by.sines.to(x.dtype)
