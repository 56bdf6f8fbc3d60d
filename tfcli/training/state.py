"""What training remembers between steps, and checkpoints of it.

step-000250/model.safetensors      the weights
            optimizer.safetensors  what the optimizers remember, the state of the random generators, and the moving
                                   average of the weights
            state.json             the counters below; written last inside the folder, which is renamed into place

Under fsdp, model.parts/ and optimizer.parts/ hold a file of each process in the place of the tensors that they share
out; the states of the random generators, of all processes, stay in optimizer.safetensors.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from tfcli.errors import BrokenInputError
from tfcli.files import read_json, replacing_folder, write_json
from tfcli.models.transformer import Transformer
from tfcli.runs.directory import RunDirectory
from tfcli.runs.parts import ABOUT, is_divided, save_parts
from tfcli.runs.weights import checkpoint_tensors, fill_model, load_tensors, model_tensors, save_tensors, stored_tensor
from tfcli.training.averaging import MovingAverage
from tfcli.training.muon import Muon
from tfcli.training.random_state import random_states, restore_random_state
from tfcli.training.workers import ALONE, Workers

FORMAT_VERSION = 3

_STATE_KEYS: dict[type[Optimizer], tuple[str, ...]] = {
    AdamW: ("step", "exp_avg", "exp_avg_sq"),
    Muon: ("momentum_buffer",),
}
"""What each optimizer remembers of a parameter."""


@dataclass
class Progress:
    """Counters of a training. `stale`: evaluations since the best one. `seconds`: of training and evaluation.
    `skipped`: steps left out, whose numbers were not finite. `lines`: those of metrics.jsonl so far. `pending_*`: what
    is summed up for the next report, so that a resumed run reports what the unbroken one does."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_loss: float | None = None
    best_step: int | None = None
    stale: int = 0
    skipped: int = 0
    lines: int = 0
    pending_loss: float = 0.0
    pending_targets: int = 0
    pending_tokens: int = 0
    pending_places: int = 0
    finished: bool = False

    @property
    def updates(self) -> int:
        """Of the weights: steps that were not left out."""
        return self.step - self.skipped


def save_checkpoint(
    run: RunDirectory,
    run_id: str,
    model: Transformer,
    optimizers: Sequence[Optimizer],
    progress: Progress,
    average: MovingAverage | None = None,
    workers: Workers = ALONE,
) -> Path:
    """Write a checkpoint of this step, whole or not at all. All workers call it together."""
    folder = run.checkpoint(progress.step)
    random = random_states(model.device, workers)
    tensors = {
        "model": model_tensors(model),
        "optimizer": {**_optimizer_tensors(model, optimizers), **_average_tensors(average)},
    }
    parts = None
    if any(is_divided(parameter) for parameter in model.parameters()):
        parts = _save_parts(folder, run_id, tensors, workers)
        tensors = {"optimizer": {}}
    if workers.is_first:
        tensors["optimizer"].update(random)
        with replacing_folder(folder) as temporary:
            for name, values in tensors.items():
                save_tensors(temporary / f"{name}.safetensors", values, {"run_id": run_id})
            for made in parts.iterdir() if parts is not None else ():
                made.rename(temporary / made.name)
            write_json(temporary / "state.json", {"format_version": FORMAT_VERSION, **asdict(progress)})
    return folder


def _save_parts(folder: Path, run_id: str, tensors: Mapping[str, Mapping[str, Tensor]], workers: Workers) -> Path:
    """Every worker writes what it holds beside `folder`; to be moved there once all have."""
    place = folder.with_name(f".{folder.name}.parts.tmp")

    def prepare() -> None:
        shutil.rmtree(place, ignore_errors=True)
        for name in tensors:
            (place / f"{name}.parts").mkdir(parents=True)
            write_json(place / f"{name}.parts" / ABOUT, {"run_id": run_id})

    workers.first_does(prepare)
    with workers.together():
        for name, values in tensors.items():
            save_parts(place / f"{name}.parts", values)
    return place


def load_checkpoint(
    folder: Path,
    run_id: str,
    model: Transformer,
    optimizers: Sequence[Optimizer],
    average: MovingAverage | None = None,
    workers: Workers = ALONE,
    seed: int = 0,
) -> Progress:
    """Put a checkpoint's weights, moments, moving average and random state back, and return its counters.

    Args:
        seed: where other random numbers begin, if there were more or fewer workers when it was written.

    Raises:
        BrokenInputError: a file is damaged or belongs to another run.
    """
    progress = _read_state(folder)
    weights, moments = folder / "model.safetensors", folder / "optimizer.safetensors"
    fill_model(model, _tensors_of_run(folder, "model", run_id, model_tensors(model)), weights)
    places = {**_average_tensors(average), **(_places_of_moments(model, optimizers) if progress.updates > 0 else {})}
    stored = _tensors_of_run(folder, "optimizer", run_id, places)
    random = load_tensors(moments)[0] if "random.cpu" not in stored else stored
    restore_random_state(model.device, random, moments, workers, workers.seed(seed, progress.step))
    for name, tensor in _average_tensors(average).items():
        tensor.copy_(stored_tensor(stored, name, moments))
    if progress.updates > 0:  # there are no moments before the first update
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
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Progress).validate_python(asdict(Progress(**values)))
    except (TypeError, ValidationError) as error:
        raise BrokenInputError(f"{folder / 'state.json'} is damaged ({error})", "remove that checkpoint") from error


def _tensors_of_run(folder: Path, name: str, run_id: str, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    tensors, metadata = checkpoint_tensors(folder, name, like)
    if metadata.get("run_id") != run_id:
        raise BrokenInputError(f"{folder / name}.safetensors belongs to another run", "restore the run's own file")
    return tensors


def _optimizer_tensors(model: Transformer, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    return {
        f"{key}.{name}": value
        for optimizer, name, parameter in _updated(model, optimizers)
        for key, value in optimizer.state[parameter].items()
    }


def _places_of_moments(model: Transformer, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """For each tensor that an optimizer remembers, one of its shape, divided among the workers as it is."""
    return {
        f"{key}.{name}": torch.zeros(()) if key == "step" else parameter
        for optimizer, name, parameter in _updated(model, optimizers)
        for key in _STATE_KEYS[type(optimizer)]
    }


def _average_tensors(average: MovingAverage | None) -> dict[str, Tensor]:
    return {f"average.{name}": tensor for name, tensor in average.tensors.items()} if average else {}


def _updated(model: Transformer, optimizers: Sequence[Optimizer]) -> Iterator[tuple[Optimizer, str, nn.Parameter]]:
    """Every parameter by name, with the optimizer that updates it."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                yield optimizer, names[parameter], parameter


def _restore_moments(
    model: Transformer, optimizers: Sequence[Optimizer], tensors: dict[str, Tensor], path: Path
) -> None:
    for optimizer, name, parameter in _updated(model, optimizers):
        state = {key: stored_tensor(tensors, f"{key}.{name}", path) for key in _STATE_KEYS[type(optimizer)]}
        if any(value.ndim and value.shape != parameter.shape for value in state.values()):
            raise BrokenInputError(f"{path}: the moments of {name!r} have another shape", "restore the run's own file")
        # The fused kernel wants even its step counter on the parameter's device.
        optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in state.items()}
