"""k heads of size D / k cost the matrix products of one head of size D; the softmax has k times as many exponentials
(CS224n's notes on transformers, section 3)."""

from collections.abc import Callable, Sequence

import torch

from tfcli.inspection.cost.one_attention import counted, one_attention
from tfcli.inspection.cost.stopwatch import seconds_in_turns
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.recipe.model import ModelSection
from tfcli.records.cost import HeadCosts, HeadCount


def heads_cost(section: ModelSection, heads: Sequence[int], length: int, sequences: int = 1) -> HeadCosts:
    """One self-attention of the model's size, cut into each number of heads.

    Raises:
        UsageError: D cannot be divided by one of them.
    """
    makers = [one_attention(section, number) for number in heads]
    found = [counted(make, section.d_model, length, sequences) for make in makers]
    x = torch.randn(sequences, length, section.d_model, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        seconds = seconds_in_turns([_run(make(), x) for make in makers])
    counts = tuple(
        HeadCount(number, section.d_model // number, one.parameters, one.flops, one.exponentials, taken)
        for number, one, taken in zip(heads, found, seconds, strict=True)
    )
    return HeadCosts(section.d_model, length, sequences, counts)


def _run(attention: MultiHeadAttention, x: torch.Tensor) -> Callable[[], object]:
    # What is allocated may hold anything, and numbers that are no numbers or nearly 0 take another time.
    generator = torch.Generator().manual_seed(1)
    for parameter in attention.parameters():
        parameter.normal_(0.0, x.shape[-1] ** -0.5, generator=generator)
    return lambda: attention(x, weights=[])
