"""What training remembers between steps, and checkpoints of it.

step-000250/model.safetensors      the weights
            optimizer.safetensors  what the optimizers remember, and the state of the random generators
            state.json             the counters below; written last inside the folder, which is renamed into place
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from tfcli.errors import BrokenInputError
from tfcli.files import read_json, replacing_folder, write_json
from tfcli.models.transformer import Transformer
from tfcli.runs.directory import RunDirectory
from tfcli.runs.weights import fill_model, load_tensors, model_tensors, save_tensors

FORMAT_VERSION = 2

_STATE_KEYS: dict[type[Optimizer], tuple[str, ...]] = {
    AdamW: ("step", "exp_avg", "exp_avg_sq"),
    Muon: ("momentum_buffer",),
}
"""What each optimizer remembers of a parameter."""


@dataclass
class Progress:
    """Counters of a training. `stale`: evaluations since the best one. `seconds`: of training and evaluation.
    `pending_*`: what is summed up for the next report, so that a resumed run reports what the unbroken one does."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_loss: float | None = None
    best_step: int | None = None
    stale: int = 0
    pending_loss: float = 0.0
    pending_targets: int = 0
    finished: bool = False


def save_checkpoint(
    run: RunDirectory, run_id: str, model: Transformer, optimizers: Sequence[Optimizer], progress: Progress
) -> Path:
    """Write a checkpoint of this step, whole or not at all, then remove the older ones."""
    folder = run.checkpoint(progress.step)
    with replacing_folder(folder) as temporary:
        save_tensors(temporary / "model.safetensors", model_tensors(model), {"run_id": run_id})
        save_tensors(temporary / "optimizer.safetensors", _optimizer_tensors(model, optimizers), {"run_id": run_id})
        write_json(temporary / "state.json", {"format_version": FORMAT_VERSION, **asdict(progress)})
    run.prune()
    return folder


def load_checkpoint(folder: Path, run_id: str, model: Transformer, optimizers: Sequence[Optimizer]) -> Progress:
    """Put a checkpoint's weights, moments and random state back, and return its counters.

    Raises:
        BrokenInputError: a file is damaged or belongs to another run.
    """
    progress = _read_state(folder)
    weights, moments = folder / "model.safetensors", folder / "optimizer.safetensors"
    fill_model(model, _tensors_of_run(weights, run_id), weights)
    stored = _tensors_of_run(moments, run_id)
    _restore_random_state(model, stored, moments)
    if progress.step > 0:  # there are no moments before the first step
        _restore_moments(model, optimizers, stored, moments)
    return progress


def read_progress(run: RunDirectory) -> Progress | None:
    """The counters of a run's last checkpoint; None where it has none."""
    checkpoints = run.checkpoints()
    return _read_state(checkpoints[max(checkpoints)]) if checkpoints else None


def _read_state(folder: Path) -> Progress:
    values = read_json(folder / "state.json")
    if not isinstance(values, dict) or values.pop("format_version", None) != FORMAT_VERSION:
        raise BrokenInputError(f"{folder} has a format this tfcli does not read", "resume with the tfcli that wrote it")
    try:
        return Progress(**values)
    except TypeError as error:
        raise BrokenInputError(f"{folder / 'state.json'} is damaged ({error})", "remove that checkpoint") from error


def _tensors_of_run(path: Path, run_id: str) -> dict[str, Tensor]:
    tensors, metadata = load_tensors(path)
    if metadata.get("run_id") != run_id:
        raise BrokenInputError(f"{path} belongs to another run", "restore the run's own file")
    return tensors


def _optimizer_tensors(model: Transformer, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    tensors = {"random.cpu": torch.get_rng_state()}
    accelerator = _generators(model)
    if accelerator is not None:
        tensors["random.accelerator"] = accelerator.get_rng_state()
    for optimizer, name, parameter in _updated(model, optimizers):
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}.{name}"] = value
    return tensors


def _updated(model: Transformer, optimizers: Sequence[Optimizer]) -> Iterator[tuple[Optimizer, str, nn.Parameter]]:
    """Every parameter by name, with the optimizer that updates it."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                yield optimizer, names[parameter], parameter


def _generators(model: Transformer) -> Any:
    """The module that holds the random state of the model's device; None on the CPU, whose state is always kept."""
    kind = model.device.type
    return None if kind == "cpu" else getattr(torch, kind)


def _restore_random_state(model: Transformer, tensors: dict[str, Tensor], path: Path) -> None:
    accelerator = _generators(model)
    try:
        torch.set_rng_state(_stored(tensors, "random.cpu", path))
        if accelerator is not None:
            accelerator.set_rng_state(_stored(tensors, "random.accelerator", path))
    except (RuntimeError, TypeError) as error:
        raise BrokenInputError(
            f"{path}: the random state is damaged ({error})", "restore the run's own file"
        ) from error


def _restore_moments(
    model: Transformer, optimizers: Sequence[Optimizer], tensors: dict[str, Tensor], path: Path
) -> None:
    for optimizer, name, parameter in _updated(model, optimizers):
        state = {key: _stored(tensors, f"{key}.{name}", path) for key in _STATE_KEYS[type(optimizer)]}
        if any(value.ndim and value.shape != parameter.shape for value in state.values()):
            raise BrokenInputError(f"{path}: the moments of {name!r} have another shape", "restore the run's own file")
        # The fused kernel wants even its step counter on the parameter's device.
        optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in state.items()}


def _stored(tensors: dict[str, Tensor], name: str, path: Path) -> Tensor:
    if name not in tensors:
        raise BrokenInputError(f"{path} lacks the tensor {name!r}", "restore the file, or train again")
    return tensors[name]
