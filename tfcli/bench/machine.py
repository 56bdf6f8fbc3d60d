"""Which machine it is."""

import importlib.metadata
import importlib.util
import platform
from pathlib import Path

import torch

from tfcli.errors import UsageError
from tfcli.machine import cores
from tfcli.records.bench import Machine

_CPUINFO = Path("/proc/cpuinfo")


def describe_machine(device: str, threads: int) -> Machine:
    """This machine, by what decides its speed."""
    has_transformers = importlib.util.find_spec("transformers") is not None
    return Machine(
        processor=torch.cuda.get_device_name() if device == "cuda" else _processor(),
        cores=cores(),
        threads=threads,
        device=device,
        torch=torch.__version__,
        transformers=importlib.metadata.version("transformers") if has_transformers else None,
    )


def require_cores(threads: int) -> None:
    """Refuse to measure threads that wait for each other.

    Raises:
        UsageError: there are fewer cores.
    """
    if threads > cores():
        raise UsageError(
            f"train.threads = {threads} is more than the {cores()} processor cores there are",
            "choose --threads no larger than that",
        )


def _processor() -> str:
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
