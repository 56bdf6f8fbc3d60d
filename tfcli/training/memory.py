"""Memory estimate of a training: how much it takes, and whether that fits into this machine, before it is begun."""

import torch

from tfcli import machine
from tfcli.errors import UsageError
from tfcli.machine import peak_process_memory, process_memory
from tfcli.models.build import weightless
from tfcli.models.transformer import Transformer
from tfcli.recipe.recipe import Recipe
from tfcli.recipe.train import TrainSection
from tfcli.records.planning import MemoryRecord
from tfcli.training.memory_estimate import estimate_step_memory
from tfcli.training.optimizer import layer_matrices
from tfcli.training.synthetic import sequences_per_batch

BYTES_PER_PARAMETER = 16
"""The least that training takes in float32: the weight, its gradient, Adam's two moments. Activations come on top."""

HELD_BACK = {"float32": 0.47, "bfloat16": 0.3}
"""What a CPU's allocator holds beyond what lives, as a share of all that comes and goes within a step: it keeps what is
freed (`allocator.py`), and finds other places for what comes next. Measured with glibc 2.36 over models of 1 to 85
million parameters: 0.42 to 0.55 in float32, 0.15 to 0.35 in bfloat16."""

MARGIN = 0.9
"""A training is refused where this share of what lives at once is more than there is: predictions are that true."""

_FLOAT = 4


def predict_memory(recipe: Recipe) -> MemoryRecord:
    """What a training of full batches takes in one process, by its step on shapes alone.

    AdamW remembers two numbers a parameter and Muon one; a moving average is one more. The process is taken to be as
    large as this one is now. torch.compile takes less than is predicted here, and fsdp a part of it.

    Args:
        recipe: decided for the machine, with `model.vocab_size` set.
    """
    train = recipe.train
    most = estimate_step_memory(recipe.model, train, sequences_per_batch(recipe))
    optimizer = _FLOAT * _remembered(weightless(recipe.model), train)
    # A step that is reported ends with a copy of the weights beside weights and gradients (`update_sizes.py`).
    live = max(most["peak"], 2 * most["weights"] + most["gradients"]) + optimizer
    on_cpu = train.device == "cpu"
    process = process_memory() if on_cpu else 0
    allocator = round(HELD_BACK[train.precision] * (most["peak"] - most["weights"])) if on_cpu else 0
    kinds = {name: most[name] for name in ("weights", "copies", "gradients", "activations", "logits")}
    return MemoryRecord(
        process=process, optimizer=optimizer, allocator=allocator, peak=process + live + allocator, **kinds
    )


def require_memory(recipe: Recipe) -> None:
    """Refuse a training that cannot fit, which the system would otherwise kill without a word.

    Args:
        recipe: as for `predict_memory`.

    Raises:
        UsageError: names what takes the memory, how much that is, and what there is.
    """
    there = memory_of(torch.device(recipe.train.device))
    parameters = weightless(recipe.model).num_parameters()
    least = BYTES_PER_PARAMETER * parameters
    has = f"and the {recipe.train.device} has a memory of {there / 1e9:.3g} GB"
    if least > there:
        raise UsageError(
            f"The model has {parameters:,} parameters, whose training takes {least / 1e9:.3g} GB at least, {has}",
            "choose a smaller one, as with --size small",
        )
    memory = predict_memory(recipe)
    needed = memory.peak - memory.allocator
    if MARGIN * needed > there:
        raise UsageError(
            f"Training takes {needed / 1e9:.3g} GB with micro-batches of {sequences_per_batch(recipe)} sequences of "
            f"{recipe.train.context} tokens, {has}",
            "lower train.batch_size and raise train.grad_accumulation, or set train.activation_checkpointing=true",
        )


def memory_of(device: torch.device) -> int:
    """Bytes that a device has in all."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return machine.memory()


def peak_memory(device: torch.device) -> int:
    """Bytes that this process held at most: of a CUDA GPU, as PyTorch counts them; else of the machine's memory."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_process_memory()


def _remembered(model: Transformer, train: TrainSection) -> int:
    """Numbers that are kept beside the weights from step to step."""
    parameters = model.num_parameters()
    by_muon = sum(p.numel() for p in layer_matrices(model)) if train.optimizer == "muon" else 0
    return 2 * parameters - by_muon + (parameters if train.ema_decay else 0)
