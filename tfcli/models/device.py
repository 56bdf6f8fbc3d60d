"""Device choice: CUDA, CPU or Apple's MPS, where the user leaves it open; and waiting for a device."""

import warnings

import torch

from tfcli.errors import Remark, UsageError


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


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
