"""Mixed precision: which device and which precision a run has where the recipe says "auto"."""

import warnings
from typing import Literal

import torch

from tfcli.errors import Remark, UsageError
from tfcli.machine import cpu_flags
from tfcli.recipe.model import ModelSection

_BFLOAT16_UNITS = {"amx_bf16", "avx512_bf16"}
_SMALLEST_BFLOAT16_D_MODEL = 128


def choose_device(wanted: str) -> torch.device:
    """CUDA where there is one, else the CPU; a `Remark` where Apple's MPS has been left aside.

    Raises:
        UsageError: the device that is asked for is not there.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        wanted = "cuda" if there["cuda"] else "cpu"
        if wanted == "cpu" and there["mps"]:
            warnings.warn("--device mps is untried: the CPU is used; name it to try it.", Remark, stacklevel=2)
    if not there[wanted]:
        raise UsageError(f"There is no {wanted} device on this machine", "use --device auto")
    return torch.device(wanted)


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
