"""One self-attention without a mask, alone, of a model's size."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from tfcli.errors import UsageError
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.recipe.model import ModelSection


@dataclass(frozen=True)
class Counts:
    """What one attention on N tokens comes to, as counted in it."""

    parameters: int
    flops: int
    exponentials: int


def one_attention(section: ModelSection, num_heads: int | None = None) -> Callable[[], MultiHeadAttention]:
    """Makes the attention of a section; with `num_heads`, of so many heads of size D / H each.

    Raises:
        UsageError: D cannot be divided by the heads.
    """
    if num_heads is not None and section.d_model % num_heads:
        raise UsageError(
            f"d_model = {section.d_model} cannot be divided into {num_heads} heads", "choose divisors of d_model"
        )
    own = num_heads is None
    alone = ModelSection(
        architecture="encoder",
        d_model=section.d_model,
        num_heads=num_heads or section.num_heads,
        num_kv_heads=section.num_kv_heads if own else None,
        head_dim=section.head_dim if own else None,
        attention_score=section.attention_score,
        attention_bias=section.attention_bias,
        attention_output_bias=section.attention_output_bias,
        positions="none",
    )
    return lambda: MultiHeadAttention(alone)


def counted(make: Callable[[], MultiHeadAttention], d_model: int, length: int, sequences: int = 1) -> Counts:
    """Parameters, operations of the matrix products, and numbers that the softmax takes the exponential of."""
    with torch.device("meta"):
        attention, weights = make(), list[torch.Tensor]()
        x = torch.empty(sequences, length, d_model)
        with FlopCounterMode(display=False) as counter:
            attention(x, weights=weights)
    parameters = sum(parameter.numel() for parameter in attention.parameters())
    return Counts(parameters, int(counter.get_total_flops()), weights[0].numel())
