"""Causal mask, padding mask and sliding window: attention masks are boolean, True where a query may attend to a key.

Shape legend: B batch, T target (query) length, S source (key) length.
"""

import functools

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


def window_mask(target_length: int, source_length: int, window: int, device: torch.device | None = None) -> Tensor:
    """Query t sees the keys less than `window` away, before and after, counted as in `causal_mask`.

    Together with the causal mask that is `window` keys, its own among them (Beltagy et al. 2020, section 3.1).

    Shape:
        returns: (T, S)
    """
    last, first = source_length - target_length + window - 1, source_length - target_length - window + 1
    mask = torch.ones(target_length, source_length, dtype=torch.bool, device=device)
    return mask.tril(diagonal=last).triu(diagonal=first)


def attention_mask(
    padding_mask: Tensor | None,
    target_length: int,
    source_length: int,
    *,
    causal: bool,
    window: int | None = None,
    device: torch.device,
) -> Tensor | None:
    """One mask out of the reasons not to attend: the key is padding, lies in the future, or too far away.

    Shape:
        padding_mask: (B, S), True at real tokens
        returns: (B, 1, T, S), broadcast over the heads; None where every query may see every key
    """
    masks = [] if padding_mask is None else [padding_mask[:, None, None, :]]
    if causal and target_length > 1:
        masks.append(causal_mask(target_length, source_length, device)[None, None])
    if window is not None and window < source_length:
        masks.append(window_mask(target_length, source_length, window, device)[None, None])
    return functools.reduce(torch.logical_and, masks) if masks else None
