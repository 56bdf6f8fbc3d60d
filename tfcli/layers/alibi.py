"""ALiBi, attention with linear biases: each head subtracts from its scores by the distance (Press et al. 2022)."""

import torch
from torch import Tensor


def alibi_slopes(num_heads: int) -> Tensor:
    """m_h = 2^(−8h/H) for h = 1 … H, where H is a power of two (section 3); (H,). Else the slopes of the power of two
    below it come first, and every second one of the next power fills up, as in the authors' code.

        >>> alibi_slopes(4)
        tensor([0.2500, 0.0625, 0.0156, 0.0039])
    """

    def geometric(heads: int) -> Tensor:
        return 2.0 ** (-8 / heads * torch.arange(1, heads + 1, dtype=torch.float64)).float()

    below = 1 << (num_heads.bit_length() - 1)
    return torch.cat((geometric(below), geometric(2 * below)[0::2][: num_heads - below]))


def alibi_bias(target_length: int, source_length: int, slopes: Tensor) -> Tensor:
    """−m_h · |distance|, (1, H, T, S), the queries being the last rows; a causal mask hides the future anyway."""
    keys = torch.arange(source_length, device=slopes.device)
    return (-slopes[:, None, None] * (keys[source_length - target_length :, None] - keys).abs())[None]
