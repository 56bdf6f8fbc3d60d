"""Rotary positions (Su et al. 2021): a query at position m and a key at n meet at an angle that depends on n − m alone.

Dimension i is paired with dimension i + Dh/2, and pair i is turned by the angle position · base^(−2i/Dh).
"""

import torch
from torch import Tensor

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines, each of shape (T, Dh)."""


def rotation(positions: Tensor, head_dim: int, base: float) -> Rotation:
    """Cosines and sines of the angles at some positions (Su et al. 2021, equation 15).

    Shape:
        positions: (T,)
        returns: two of (T, Dh), float32
    """
    exponents = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float64) / head_dim
    angles = (positions.double()[:, None] * base**-exponents).repeat(1, 2)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, by: Rotation | None) -> Tensor:
    """Turn each pair (xᵢ, x_{i+Dh/2}) by its angle; unchanged where there is no rotation.

    Shape:
        x: (B, H, T, Dh)
        returns: (B, H, T, Dh)
    """
    if by is None:
        return x
    cosines, sines = (table.to(x.dtype) for table in by)
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-second, first), dim=-1) * sines
