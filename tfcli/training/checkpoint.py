"""Checkpoints of a training: writing them, going on from one, branching from a step.

step-000250/model.safetensors      the weights
            optimizer.safetensors  what the optimizers remember, the state of the random generators, and the moving
                                   average of the weights
            state.json             the counters and what they belong to (runs/checkpoint.py); written last inside the
                                   folder, which is renamed into place

Under fsdp, model.parts/ and optimizer.parts/ hold a file of each process in the place of the tensors that they share
out; the states of the random generators, of all processes, stay in optimizer.safetensors."""

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from tfcli.errors import BrokenInputError, first_lines
from tfcli.files import digest, read_json, replacing_folder, write_json, write_text
from tfcli.layers.lora import Merged
from tfcli.models.transformer import Transformer
from tfcli.recipe.loading import Settings, settings_that_decide, to_toml
from tfcli.recipe.recipe import Recipe
from tfcli.recipe.train import TrainSection
from tfcli.records.runs import SettingChanged
from tfcli.runs import weights
from tfcli.runs.checkpoint import Checkpoint, Origin, Progress, write_state
from tfcli.runs.config import RunConfig, read_config, read_run_data, write_config
from tfcli.runs.directory import RunDirectory
from tfcli.runs.metrics import append_metrics, read_metrics
from tfcli.training.averaging import MovingAverage
from tfcli.training.distributed import SINGLE_PROCESS, Workers
from tfcli.training.muon import Muon
from tfcli.training.schedule import decay_begin

_RESTORE = "restore the run's own file"
_CPU, _ACCELERATOR = "random.cpu", "random.accelerator"
_Tensors = Mapping[str, Tensor]
_DRAWN = (torch.float32, torch.float64)  # the CPU's generator keeps half a pair of normal numbers of each


def origin_of(config: RunConfig, data: str, recipe: Recipe) -> Origin:
    """What the checkpoints of a run belong to; `data`: the fingerprint of its dataset."""
    return Origin(config.run_id, config.tokenizer_fingerprint, data, asdict(config.roles), settings_that_decide(recipe))


def random_states(device: torch.device, workers: Workers) -> dict[str, Tensor]:
    """The random states of all workers, who call it together: (bytes,) in uint8; the first one's have no number."""
    own = {_CPU: torch.get_rng_state()}
    if device.type != "cpu":
        own[_ACCELERATOR] = getattr(torch, device.type).get_rng_state()
    return {f"{name}{_of(rank)}": state for name in own for rank, state in enumerate(workers.gather(own[name]))}


def _of(rank: int) -> str:
    return f".{rank}" if rank else ""


def restore_random_state(device: torch.device, tensors: _Tensors, path: Path, workers: Workers, seed: int) -> None:
    """Put this worker's random state back; with other workers or another kind of device, begin afresh at its `seed`."""
    saved, on_cpu = sum(name.startswith(_CPU) for name in tensors), device.type == "cpu"
    if saved and (saved != workers.size or not (on_cpu or _ACCELERATOR in tensors)):
        torch.manual_seed(seed)
        return
    torch.set_rng_state(_tried(tensors, _CPU + _of(workers.rank), path, torch.device("cpu")))
    if not on_cpu:
        getattr(torch, device.type).set_rng_state(_tried(tensors, _ACCELERATOR + _of(workers.rank), path, device))


def _tried(tensors: _Tensors, name: str, path: Path, device: torch.device) -> Tensor:
    """A state that a generator takes, and draws finite numbers from."""
    if name not in tensors:
        raise BrokenInputError(f"{path} lacks the tensor {name!r}", _RESTORE)
    kinds = _DRAWN if device.type == "cpu" else _DRAWN[:1]
    try:
        generator = torch.Generator(device)
        generator.set_state(tensors[name])
        drawn = [torch.randn(1, generator=generator, device=device, dtype=kind) for kind in kinds]
        if all(bool(torch.isfinite(number)) for number in drawn):
            return tensors[name]
        reason = "it draws numbers that are not finite"
    except (RuntimeError, TypeError) as error:
        reason = first_lines(error)
    raise BrokenInputError(f"{path}: the random state is damaged ({reason})", _RESTORE)


_LAST_COUNTED = 1 << 24  # AdamW counts its updates in float32, where one more than this is the same number
_STATES: dict[type[Optimizer], tuple[str, ...]] = {AdamW: ("step", "exp_avg", "exp_avg_sq"), Muon: ("momentum_buffer",)}
"""What each optimizer remembers of a parameter."""


def save_checkpoint(
    run: RunDirectory,
    origin: Origin,
    model: Transformer,
    optimizers: Sequence[Optimizer],
    progress: Progress,
    *,
    average: MovingAverage | None = None,
    workers: Workers = SINGLE_PROCESS,
) -> Path:
    """Write a checkpoint of this step, whole or not at all. All workers call it together."""
    folder = run.checkpoint(progress.step)
    metadata = {"run_id": origin.run_id, "step": str(progress.step)}
    random = random_states(model.device, workers)
    moments = {
        f"{key}.{name}": value
        for optimizer, name, parameter in _updated(model, optimizers)
        for key, value in optimizer.state[parameter].items()
    }
    tensors = {"model": weights.model_tensors(model), "optimizer": {**moments, **_average_tensors(average)}}
    parts = None
    if any(weights.is_sharded(parameter) for parameter in model.parameters()):
        parts = _save_parts(folder, metadata, tensors, workers)
        tensors = {"optimizer": {}}
    if workers.is_first:
        tensors["optimizer"].update(random)
        with replacing_folder(folder) as temporary:
            for name, values in tensors.items():
                weights.save_tensors(temporary / f"{name}.safetensors", values, metadata)
            for made in parts.iterdir() if parts is not None else ():
                for part in made.glob("*.safetensors"):
                    weights.sort_metadata(part)
                made.rename(temporary / made.name)
            write_state(temporary, progress, origin)
    return folder


def _save_parts(folder: Path, metadata: dict[str, str], tensors: Mapping[str, _Tensors], workers: Workers) -> Path:
    """Every worker writes what it holds beside `folder`; to be moved there once all have."""
    place = folder.with_name(f".{folder.name}.parts.tmp")

    def prepare() -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir()  # not through a link that lies there
        for name in tensors:
            (place / f"{name}.parts").mkdir()
            write_json(place / f"{name}.parts" / weights.ABOUT, metadata)

    workers.first_does(prepare)
    with workers.together():
        for name, values in tensors.items():
            weights.save_sharded(place / f"{name}.parts", values)
    return place


def load_checkpoint(
    checkpoint: Checkpoint,
    run_id: str,
    model: Transformer,
    optimizers: Sequence[Optimizer],
    *,
    average: MovingAverage | None = None,
    workers: Workers = SINGLE_PROCESS,
    seed: int = 0,
) -> Progress:
    """Put a checkpoint's weights, moments, moving average and random state back, and return its counters. Random
    numbers begin at `seed` if there were more or fewer workers. Damaged and foreign files are refused."""
    progress, folder = checkpoint.progress, checkpoint.folder
    file, moments = folder / "model.safetensors", folder / "optimizer.safetensors"
    with workers.together():  # parts are read by all in one go, and what one finds in its own ends all
        own = weights.model_tensors(model)
        weights.fill_model(model, weights.checkpoint_tensors(checkpoint, "model", run_id, own), file)
    averages = _average_tensors(average)
    moved = list(_updated(model, optimizers)) if progress.updates > 0 else []  # no moments before the first update
    places = dict(averages)  # for each tensor, one of its shape, divided among the workers as it is
    for optimizer, name, parameter in moved:
        for key in _STATES[type(optimizer)]:
            places[f"{key}.{name}"] = torch.zeros(()) if key == "step" else parameter
    with workers.together():
        stored = weights.checkpoint_tensors(checkpoint, "optimizer", run_id, places)
        weights.require_tensors(stored, places, moments)
        _require_updates(stored, progress.updates, moments)
        restore_random_state(model.device, stored, moments, workers, workers.seed(seed, progress.step))
    for name, tensor in averages.items():
        tensor.copy_(stored[name])
    _restore_moments(moved, stored)
    return progress


def _restore_moments(moved: Sequence[tuple[Optimizer, str, nn.Parameter]], stored: _Tensors) -> None:
    for optimizer, name, parameter in moved:
        keys, device = _STATES[type(optimizer)], parameter.device  # where the fused kernel wants even its counter
        optimizer.state[parameter] = {key: stored[f"{key}.{name}"].to(device) for key in keys}


def _average_tensors(average: MovingAverage | None) -> dict[str, Tensor]:
    return {f"average.{name}": tensor for name, tensor in average.tensors.items()} if average else {}


def _updated(model: Transformer, optimizers: Sequence[Optimizer]) -> Iterator[tuple[Optimizer, str, nn.Parameter]]:
    """Every parameter by name, with the optimizer that updates it."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                yield optimizer, names[parameter], parameter


def _require_updates(tensors: _Tensors, updates: int, path: Path) -> None:
    """Refuse moments of another number of updates than the counters tell, and squares below zero."""
    for name, tensor in tensors.items():
        if name.startswith("step.") and tensor.item() != min(updates, _LAST_COUNTED):
            problem = f"{path}: {name!r} counts another number of updates than the {updates} of state.json"
            raise BrokenInputError(problem, _RESTORE)
        if name.startswith("exp_avg_sq.") and bool((weights.local_shard(tensor) < 0).any()):
            raise BrokenInputError(f"{path}: {name!r}, a mean of squares, is below zero", _RESTORE)


def checkpoints_to_keep(steps: Collection[int], section: TrainSection) -> set[int]:
    """The last one, and of those before it the last that were due: train.keep_checkpoints together. Under wsd also the
    last one from before the decay, for what is to go on at the peak. One that only an interruption has brought goes
    with the next, so that a resumed run has what the unbroken one has."""
    last = max(steps)
    at_peak = [step for step in steps if 0 < step <= decay_begin(section)] if section.schedule == "wsd" else []
    kept = {last, *_last_due(steps, last, section, section.keep_checkpoints - 1)}
    return kept | set(_last_due(at_peak, last, section, 1))


def weights_to_keep(steps: Collection[int], section: TrainSection) -> set[int]:
    """Those of which train.keep_every keeps the weights, and nothing else."""
    every = {step for step in steps if section.keep_every and step % section.keep_every == 0}
    return every - checkpoints_to_keep(steps, section)


def prune(run: RunDirectory, section: TrainSection) -> None:
    """Remove the checkpoints that are no longer to be kept."""
    steps = run.checkpoints()
    run.prune(checkpoints_to_keep(steps, section), weights_to_keep(steps, section))


def checkpoints_to_average(run: RunDirectory, step: int, section: TrainSection) -> list[Path]:
    """Those that make train.average_checkpoints with the weights of this step, the last; never the untrained ones."""
    checkpoints = run.checkpoints()
    trained = [saved for saved in checkpoints if saved > 0]
    return [checkpoints[due] for due in _last_due(trained, step, section, section.average_checkpoints - 1)]


def _last_due(steps: Collection[int], before: int, section: TrainSection, count: int) -> list[int]:
    due = [step for step in sorted(steps) if step < before and section.save_every and step % section.save_every == 0]
    return due[max(0, len(due) - count) :]


def branch(source: RunDirectory, recipe: Recipe, checkpoint: Checkpoint, new: RunDirectory, *, asked: Settings) -> None:
    """Write the new run, whole or not at all; the old one is only read. The new one begins with the old one's `recipe`
    at that checkpoint; what it is `asked` to change at once makes its id. Damaged and foreign files are refused."""
    config, data, step = read_config(source.config), read_run_data(source.data), checkpoint.step
    run_id = digest(config.run_id, step, asked)
    with replacing_folder(new.path) as temporary:
        run = RunDirectory(temporary)
        shutil.copyfile(source.tokenizer, run.tokenizer)
        shutil.copyfile(source.data, run.data)
        write_config(run.config, replace(config, run_id=run_id))
        folder = run.checkpoint(step)
        shutil.copytree(checkpoint.folder, folder)
        for file in folder.glob("*.safetensors"):
            stored = weights.StoredTensors(file)
            weights.require_belonging(stored.metadata, file, config.run_id, step)
            weights.save_tensors(file, stored, {**stored.metadata, "run_id": run_id})
        for parts in folder.glob("*.parts"):
            about = read_json(parts / weights.ABOUT)
            weights.require_belonging(about, parts, config.run_id, step)
            write_json(parts / weights.ABOUT, {**about, "run_id": run_id})
        tensors = weights.checkpoint_tensors(checkpoint, "model", config.run_id)
        if recipe.train.ema_decay:
            remembered = weights.checkpoint_tensors(checkpoint, "optimizer", config.run_id)
            averages = {name: f"average.{name}" for name in tensors}
            tensors = {n: remembered[a] if a in remembered else tensors[n] for n, a in averages.items()}
        weights.save_tensors(run.weights, Merged(tensors, recipe.train.adapter_factor), {"run_id": run_id})
        progress = _history(source, run, checkpoint.progress)
        append_metrics(run.metrics, SettingChanged(step, "run", str(checkpoint.folder), str(new.path)))
        origin = origin_of(replace(config, run_id=run_id), data.fingerprint, recipe)
        write_state(folder, replace(progress, lines=progress.lines + 1), origin)
        write_text(run.recipe, to_toml(recipe))


def _history(source: RunDirectory, new: RunDirectory, progress: Progress) -> Progress:
    """Copy the metrics up to the checkpoint, of the evaluations its own: the best weights before it are gone."""
    lines, best = [], None
    for number, line in enumerate(read_metrics(source.metrics)):
        if line["step"] > progress.step or 0 < progress.lines <= number:
            break
        if line.get("event") == "evaluated":
            own = line["step"] == progress.step and not progress.unevaluated
            if not own or best is not None or line.get("of") not in (None, "weights", "moving_average"):
                continue
            best = line.get("loss")
        lines.append(line)
    write_text(new.metrics, "".join(json.dumps(line) + "\n" for line in lines))
    best_step = None if best is None else progress.step
    return replace(progress, lines=len(lines), best_loss=best, best_step=best_step, whole_loss=None, stale=0)
