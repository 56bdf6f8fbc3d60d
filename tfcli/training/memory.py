"""Whether a training fits into this machine's memory, before it is begun."""

import os
from pathlib import Path

import torch

from tfcli.errors import UsageError
from tfcli.models.build import weightless
from tfcli.recipe.model import ModelSection

BYTES_PER_PARAMETER = 16
"""The least that training takes in float32: the weight, its gradient, Adam's two moments. Activations come on top."""

_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def require_memory(section: ModelSection, device: torch.device) -> None:
    """Refuse a model whose training cannot fit, which the system would otherwise kill without a word.

    Raises:
        UsageError: names the parameters, the memory they take, and what there is.
    """
    parameters = weightless(section).num_parameters()
    needed, there = BYTES_PER_PARAMETER * parameters, memory_of(device)
    if needed > there:
        raise UsageError(
            f"The model has {parameters:,} parameters, whose training takes {needed / 1e9:.0f} GB at least, and the "
            f"{device.type} has {there / 1e9:.0f} GB",
            "choose a smaller one, as with --size small",
        )


def memory_of(device: torch.device) -> int:
    """Bytes that a device has in all."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _CONTAINER_LIMIT.read_text().strip() if _CONTAINER_LIMIT.is_file() else "max"
    return min(memory, int(limit)) if limit.isdecimal() else memory
