"""The sinusoidal positional encoding (Vaswani et al. 2017, section 3.5)."""

import torch
from torch import Tensor

from tfcli.recipe.model import PositionLayout


def sinusoidal_encoding(
    length: int,
    d_model: int,
    base: float = 10_000.0,
    *,
    layout: PositionLayout = "interleaved",
    offset: int = 0,
    scaling: float = 1.0,
) -> Tensor:
    """r_ni = sin(n / base^(i/D)) for even i, cos(n / base^((i−1)/D)) for odd i; n and i count from 0.

    Each even dimension and the odd one after it share a wavelength, from 2π to 2π·base. An odd D ends on a sine. The
    layout "halves" holds the same numbers with all sines before all cosines, as Marian has it.

        >>> sinusoidal_encoding(2, 4)[1]      # sin 1, cos 1, sin 0.01, cos 0.01
        tensor([0.8415, 0.5403, 0.0100, 0.9999])

    Args:
        offset: the number n of the first row.
        scaling: what n is divided by.

    Shape:
        returns: (length, D), float32
    """
    even = torch.arange(d_model) // 2 * 2  # i for even dimensions, i − 1 for odd ones
    numbers = (torch.arange(length).double() + offset) / scaling
    angles = numbers[:, None] / base ** (even.double() / d_model)
    is_even = torch.arange(d_model) % 2 == 0
    table = torch.where(is_even, angles.sin(), angles.cos()).float()
    return table if layout == "interleaved" else torch.cat((table[:, 0::2], table[:, 1::2]), dim=1)
