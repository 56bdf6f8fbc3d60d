"""Rotary position embedding, RoPE (Su et al. 2021): queries and keys meet at an angle that depends on their distance.
Pair i is turned by position · base^(−2i/Dh). The paper pairs neighbours ("interleaved": 2i with 2i + 1), Llama i with i
+ Dh/2 ("halves"), which is the same up to the order of the rows of W^q and W^k."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tfcli.layers.attention import Span
from tfcli.recipe.model import ModelSection, PositionLayout


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines for the first R of a head's Dh dimensions: (T, R), or (B, 1, T, R) by each text's positions."""

    cosines: Tensor
    sines: Tensor
    layout: PositionLayout = "halves"

    def at(self, span: Span) -> "Rotation":
        """Those of some positions."""
        cosines, sines = span.rows(self.cosines), span.rows(self.sines)
        if span.left is not None:
            cosines, sines = cosines[:, None], sines[:, None]  # the same for all heads
        return Rotation(cosines, sines, self.layout)


def rotation(positions: Tensor, frequencies: Tensor, layout: PositionLayout = "halves", gain: float = 1.0) -> Rotation:
    """Build the cosines and sines of the angles position · frequency, times `gain` (Su et al. 2021, equation 15).

    Shape:
        positions: (T,), or (B, T) where each text has its own.
        frequencies: (R / 2,), or (B, R / 2) where each text has its own; float64.
        Returns tables of (T, R) or (B, T, R).
    """
    angles = positions.double()[..., None] * frequencies[..., None, :]
    pairs_in_halves = layout == "halves"
    angles = torch.cat((angles, angles), dim=-1) if pairs_in_halves else angles.repeat_interleave(2, dim=-1)
    return Rotation((gain * angles.cos()).float(), (gain * angles.sin()).float(), layout)


def dynamic_frequencies(model: ModelSection, lengths: Tensor) -> Tensor:
    """Return each pair's angle from one position to the next for "dynamic" positions ("dynamic NTK" scaling).

    A text longer than the context has a larger base: base · (s · n / N − (s − 1))^(R / (R − 2)) for a text of n
    tokens, a context of N and the scaling s.

    Shape:
        lengths: (…), the number of tokens in each text.
        Returns (…, R / 2), float64.
    """
    size = model.turned_size
    factor = model.position_scaling
    context = model.max_seq_len
    growth = factor * lengths.double().clamp(min=context) / context - (factor - 1)
    bases = model.position_base * growth ** (size / (size - 2))
    exponents = torch.arange(0, size, 2, dtype=torch.float64) / size
    return bases[..., None] ** -exponents


def rotary_frequencies(model: ModelSection, length: int = 0) -> Tensor:
    """Each pair's angle from one position to the next, (R / 2,); "dynamic": by the `length` beyond the context."""
    if model.position_scaling_kind == "dynamic":
        return dynamic_frequencies(model, torch.tensor(length))
    size, base, factor = model.turned_size, model.position_base, model.position_scaling
    frequencies: Tensor = base ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
    if model.position_scaling_kind == "linear":
        return frequencies / factor
    context, (low, high) = model.position_trained_len or model.max_seq_len, model.turns
    if model.position_scaling_kind == "llama3":  # from low to high, in even steps of turns
        kept = ((context * frequencies / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    else:  # yarn: from the pair that turns low times to the one that does high times, in even steps of pairs
        first, last = (size * math.log(context / (2 * math.pi * n)) / (2 * math.log(base)) for n in (high, low))
        begin, end = max(math.floor(first), 0), min(math.ceil(last), size - 1)
        kept = 1 - ((torch.arange(size // 2).double() - begin) / (end - begin or 0.001)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def rotate(x: Tensor, by: Rotation | None) -> Tensor:
    """Turn each pair (a, b) of x, (B, H, T, Dh), of the first R dimensions: (a cos − b sin, b cos + a sin)."""
    if by is None:
        return x
    if (size := by.cosines.shape[-1]) < x.shape[-1]:
        return torch.cat((rotate(x[..., :size], by), x[..., size:]), dim=-1)
    if by.layout == "halves":
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
    else:
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return x * by.cosines.to(x.dtype) + turned * by.sines.to(x.dtype)
