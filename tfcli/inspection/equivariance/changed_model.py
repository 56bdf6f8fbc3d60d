"""A model with one thing changed for as long as a block lasts: its positions, its mask, or what its norms look at."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tfcli.inspection.equivariance.across_tokens import NormAcrossTokens
from tfcli.inspection.tower import Tower
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.norms import LayerNorm, RMSNorm
from tfcli.layers.positions import AlibiPositions, QueryKeyPositions, RotaryPositions
from tfcli.layers.relative_bias import RelativeBias


@contextmanager
def altered(one: Tower, *, positions: bool, masked: bool) -> Iterator[None]:
    """With or without what tells positions, and with or without the causal mask.

    A window tells positions too, for it hides by distance: without positions there is none.
    """
    with ExitStack() as changes:
        for attention in one.attentions():
            changes.enter_context(_set(attention, "causal", masked))
            if not positions:
                changes.enter_context(_set(attention, "window", None))
        if not positions:
            for module, name, value in _silent(one):
                changes.enter_context(_set(module, name, value))
        yield


@contextmanager
def norms_across_tokens(one: Tower) -> Iterator[None]:
    """Every norm of vectors takes mean and variance of each dimension over the tokens of the text, as the note in UDL's
    lecture has it; those of queries and keys stay."""
    with ExitStack() as changes:
        for parent in [*one.embedding.modules(), *one.stack.modules()]:
            for name, child in parent.named_children():
                if isinstance(child, LayerNorm | RMSNorm) and not isinstance(parent, MultiHeadAttention):
                    changes.enter_context(_set(parent, name, NormAcrossTokens(child)))
        yield


def _silent(one: Tower) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Every table of positions, with what says nothing in its place."""
    for module in [one.embedding, *one.stack.modules()]:
        if isinstance(module, TokenEmbedding) and module.has_positions:
            yield module, "positions", torch.zeros_like(module.positions)
        elif isinstance(module, QueryKeyPositions):
            yield module, "table", torch.zeros_like(module.table)
        elif isinstance(module, AlibiPositions):
            yield module, "slopes", torch.zeros_like(module.slopes)
        elif isinstance(module, RelativeBias):
            yield module, "weight", torch.zeros_like(module.weight)
        elif isinstance(module, RotaryPositions):
            yield module, "cosines", torch.ones_like(module.cosines)
            yield module, "sines", torch.zeros_like(module.sines)


@contextmanager
def _set(module: nn.Module, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    if isinstance(before, nn.Parameter):
        value = nn.Parameter(value, requires_grad=False)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
