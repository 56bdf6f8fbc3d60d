"""Mixed precision: bfloat16 autocast over float32 weights, where the recipe says "auto" and it is faster."""

from typing import Literal

import torch

from tfcli.machine import cpu_flags
from tfcli.models.device import choose_device as choose_device
from tfcli.recipe.model import ModelSection

_BFLOAT16_UNITS = {"amx_bf16", "avx512_bf16"}
_SMALLEST_BFLOAT16_D_MODEL = 128


def choose_precision(wanted: str, device: torch.device, model: ModelSection) -> Literal["float32", "bfloat16"]:
    """bfloat16 autocast where it is faster: on CUDA GPUs that have it, and on CPUs with bfloat16 matrix units for
    models of d_model ≥ 128. Smaller models spend longer casting than they save (docs/benchmarks.md)."""
    if wanted != "auto":
        return "bfloat16" if wanted == "bfloat16" else "float32"
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type == "cpu" and model.d_model >= _SMALLEST_BFLOAT16_D_MODEL and cpu_flags() & _BFLOAT16_UNITS:
        return "bfloat16"
    return "float32"
