"""Attention path in training, fused or a sequence at a time, where the recipe says "auto"."""

from typing import Literal

import torch

from tfcli.recipe.train import AttentionPath

_LONGEST_ROWS = 512
"""Tokens up to which a sequence at a time pays: its weights are kept, and their memory grows with the square."""


def choose_attention(
    wanted: AttentionPath, device: torch.device, precision: str, context: int
) -> Literal["fused", "rows"]:
    """A sequence at a time on a CPU in bfloat16, where PyTorch's kernel takes 1.5 to 2.4 times as long up to 512
    tokens (docs/benchmarks.md); in float32 the two are equal, and on a GPU the kernel has no equal."""
    if wanted != "auto":
        return wanted
    return "rows" if device.type == "cpu" and precision == "bfloat16" and context <= _LONGEST_ROWS else "fused"
