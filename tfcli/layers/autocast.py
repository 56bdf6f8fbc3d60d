"""Mixed precision: under autocast, matrix products read bfloat16, and everything between the layers stays float32."""

import torch
from torch import Tensor


def for_products(x: Tensor) -> Tensor:
    """`x` as matrix products read it. Autocast would cast it again for each of them, there and back.

    Shape:
        x: any, and the same is returned
    """
    if x.is_meta:  # a tensor of a shape alone has no precision to save on, and PyTorch no answer for it
        return x
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x
