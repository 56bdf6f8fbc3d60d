"""The states of the random generators, of every worker: dropout goes on where it was."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError
from tfcli.runs.weights import stored_tensor
from tfcli.training.workers import Workers

_CPU, _ACCELERATOR = "random.cpu", "random.accelerator"


def random_states(device: torch.device, workers: Workers) -> dict[str, Tensor]:
    """Those of all workers; the first one's have no number behind their name. All workers call it together.

    Shape:
        each (bytes,), uint8
    """
    own = {_CPU: torch.get_rng_state()}
    accelerator = _generators(device)
    if accelerator is not None:
        own[_ACCELERATOR] = accelerator.get_rng_state()
    return {
        _numbered(name, rank): state for name, mine in own.items() for rank, state in enumerate(workers.gather(mine))
    }


def restore_random_state(
    device: torch.device, tensors: Mapping[str, Tensor], path: Path, workers: Workers, seed: int
) -> None:
    """Put this worker's own back. Where there were more or fewer workers, or another kind of device, all begin afresh,
    each at its `seed`.

    Raises:
        BrokenInputError: the state is missing or damaged.
    """
    saved, accelerator = sum(name.startswith(_CPU) for name in tensors), _generators(device)
    of_other_device = accelerator is not None and _ACCELERATOR not in tensors
    if saved and (saved != workers.size or of_other_device):
        torch.manual_seed(seed)
        return
    try:
        torch.set_rng_state(stored_tensor(tensors, _numbered(_CPU, workers.rank), path))
        if accelerator is not None:
            accelerator.set_rng_state(stored_tensor(tensors, _numbered(_ACCELERATOR, workers.rank), path))
    except (RuntimeError, TypeError) as error:
        raise BrokenInputError(
            f"{path}: the random state is damaged ({error})", "restore the run's own file"
        ) from error


def _numbered(name: str, rank: int) -> str:
    return f"{name}.{rank}" if rank else name


def _generators(device: torch.device) -> Any:
    """The module that holds the random state of a device; None on the CPU, whose state is always kept."""
    return None if device.type == "cpu" else getattr(torch, device.type)
