"""Random number generator states of every worker: dropout goes on where it was."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError, first_lines
from tfcli.training.workers import Workers

_CPU, _ACCELERATOR = "random.cpu", "random.accelerator"
_DRAWN = (torch.float32, torch.float64)
"""The CPU's generator keeps half a pair of normal numbers of each."""


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
    torch.set_rng_state(_tried(tensors, _numbered(_CPU, workers.rank), path, torch.device("cpu")))
    if accelerator is not None:
        accelerator.set_rng_state(_tried(tensors, _numbered(_ACCELERATOR, workers.rank), path, device))


def _tried(tensors: Mapping[str, Tensor], name: str, path: Path, device: torch.device) -> Tensor:
    """A state that a generator takes, and draws finite numbers from."""
    if name not in tensors:
        raise BrokenInputError(f"{path} lacks the tensor {name!r}", "restore the run's own file")
    state = tensors[name]
    kinds = _DRAWN if device.type == "cpu" else _DRAWN[:1]
    try:
        generator = torch.Generator(device)
        generator.set_state(state)
        drawn = [torch.randn(1, generator=generator, device=device, dtype=kind) for kind in kinds]
        if all(bool(torch.isfinite(number)) for number in drawn):
            return state
        reason = "it draws numbers that are not finite"
    except (RuntimeError, TypeError) as error:
        reason = first_lines(error)
    raise BrokenInputError(f"{path}: the random state is damaged ({reason})", "restore the run's own file")


def _numbered(name: str, rank: int) -> str:
    return f"{name}.{rank}" if rank else name


def _generators(device: torch.device) -> Any:
    """The module that holds the random state of a device; None on the CPU, whose state is always kept."""
    return None if device.type == "cpu" else getattr(torch, device.type)
