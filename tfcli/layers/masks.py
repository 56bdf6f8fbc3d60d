"""Attention masks: boolean, True where a query may attend to a key, as in PyTorch's fused attention.

Shape legend: B batch, T target (query) length, S source (key) length.
"""

import torch
from torch import Tensor


def causal_mask(target_length: int, source_length: int, device: torch.device | None = None) -> Tensor:
    """Query t sees key s when s ≤ t, counted from the end: the last query sees every key.

    With as many queries as keys this is the lower triangle; with a key-value cache the queries are the last rows of it.

    Shape:
        returns: (T, S)
    """
    mask = torch.ones(target_length, source_length, dtype=torch.bool, device=device)
    return mask.tril(diagonal=source_length - target_length)


def attention_mask(
    padding_mask: Tensor | None, target_length: int, source_length: int, *, causal: bool, device: torch.device
) -> Tensor | None:
    """One mask out of the two reasons not to attend: the key is padding, or the key lies in the future.

    Shape:
        padding_mask: (B, S), True at real tokens
        returns: (B, 1, T, S), broadcast over the heads; None where every query may see every key
    """
    mask = None if padding_mask is None else padding_mask[:, None, None, :]
    if causal and target_length > 1:
        future = causal_mask(target_length, source_length, device)[None, None]
        mask = future if mask is None else mask & future
    return mask
