"""Attention masks: causal mask, padding mask and sliding window; boolean, True where a query may attend to a key.

Shape legend: B batch, T target (query) length, S source (key) length, N rows of a table of positions.
"""

import functools
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Span:
    """The columns from `start` up to `end`. A text whose first `left` columns are padding counts its positions from
    there; without `left`, columns are positions.

    Shape:
        left: (B,), whole numbers
    """

    start: int
    end: int
    left: Tensor | None = None

    def rows(self, table: Tensor, offset: int = 0) -> Tensor:
        """The rows of a table of positions, `offset` further down. What padding gets is never looked at.

        Shape:
            table: (N, …)
            returns: (T, …), or (B, T, …) with padding at the left
        """
        if self.left is None:
            last = self.end + offset
            assert last <= len(table), f"position {last - 1} is beyond the context of {len(table)}"
            return table[self.start + offset : last]
        columns = torch.arange(self.start, self.end, device=self.left.device)
        return table[(columns - self.left[:, None]).clamp(min=0) + offset]
