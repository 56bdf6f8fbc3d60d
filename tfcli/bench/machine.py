"""Machine and model of a benchmark, and what is refused before it."""

import importlib.metadata
import importlib.util
from typing import Any

import torch

from tfcli.errors import UsageError
from tfcli.machine import cores, processor
from tfcli.recipe.recipe import Recipe
from tfcli.records.bench import Machine


def describe_machine(device: str, threads: int) -> Machine:
    """This machine, by what decides its speed."""
    has_transformers = importlib.util.find_spec("transformers") is not None
    return Machine(
        processor=torch.cuda.get_device_name() if device == "cuda" else processor(),
        cores=cores(),
        threads=threads,
        device=device,
        torch=torch.__version__,
        transformers=importlib.metadata.version("transformers") if has_transformers else None,
    )


def describe_model(recipe: Recipe) -> dict[str, Any]:
    """The name and the sizes of what is measured, as records of speed begin."""
    sizes = ("architecture", "num_layers", "d_model", "num_heads", "vocab_size")
    return {"recipe": recipe.name, **{name: getattr(recipe.model, name) for name in sizes}}


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


def require_transformers() -> None:
    """Refuse, before any work, to compare with a library that is not there.

    Raises:
        UsageError: it cannot be imported.
    """
    if importlib.util.find_spec("transformers") is None:
        raise UsageError("There is no library transformers to compare with", "install it: pip install transformers")
