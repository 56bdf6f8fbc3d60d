"""Self-attention beside the two other layers that mix tokens: fully connected over all of them, and recurrent (Prince
2023, section 12.1; Vaswani et al. 2017, table 1)."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import nn

from tfcli.inspection.cost.one_attention import counted, one_attention
from tfcli.recipe.model import ModelSection
from tfcli.records.cost import AgainstAtLength, AgainstRecord, MixerCost

LENGTHS = (32, 64, 128, 256, 512, 1024)


def cost_against(
    section: ModelSection, other: Literal["dense", "rnn"], lengths: Sequence[int] = LENGTHS
) -> AgainstRecord:
    """One self-attention of the model's size and one other layer, on each number of tokens."""
    beside = {"dense": _dense, "rnn": _recurrent}[other]
    found = tuple(AgainstAtLength(n, _attention(section, n), beside(section.d_model, n)) for n in lengths)
    return AgainstRecord(other, section.d_model, section.num_heads, found)


def _attention(section: ModelSection, length: int) -> MixerCost:
    """Every token reads every other in one step."""
    make = one_attention(section)
    counts = counted(make, section.d_model, length)
    with torch.device("meta"):
        takes = _takes(make(), torch.empty(1, length + 1, section.d_model))
    return MixerCost(counts.parameters, counts.flops, steps=1, path=1, another_length=takes)


def _dense(size: int, length: int) -> MixerCost:
    """All numbers of all tokens, N D, to as many: a matrix of N D × N D and a bias."""
    with torch.device("meta"):
        layer = nn.Linear(length * size, length * size)
        takes = _takes(layer, torch.empty(1, (length + 1) * size))
    return MixerCost(_parameters(layer), 2 * (length * size) ** 2, steps=1, path=1, another_length=takes)


def _recurrent(size: int, length: int) -> MixerCost:
    """h_t = tanh(W x_t + U h_{t−1} + b + c), Elman's; the two biases are PyTorch's. Each token waits for the one
    before it."""
    with torch.device("meta"):
        layer = nn.RNN(size, size, batch_first=True)
        # It is made without N, so that another short length tells as much as N + 1, and sooner.
        takes = _takes(layer, torch.empty(1, min(length, 8) + 1, size))
    flops = 4 * length * size**2
    return MixerCost(_parameters(layer), flops, steps=length, path=length - 1, another_length=takes)


def _takes(layer: Callable[..., Any], x: torch.Tensor) -> bool:
    try:
        layer(x)
    except RuntimeError:  # what PyTorch raises where shapes do not fit
        return False
    return True


def _parameters(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())
