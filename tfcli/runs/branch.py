"""Branching a training: a new run of what another one was at a checkpoint, under an id of its own."""

import json
import shutil
from dataclasses import asdict, replace

from tfcli.files import digest, read_json, replacing_folder, write_json, write_text
from tfcli.recipe.changes import settings_that_decide
from tfcli.recipe.loading import Settings, to_toml
from tfcli.recipe.recipe import Recipe
from tfcli.records.training import SettingChanged
from tfcli.runs.checkpoint import Checkpoint, Origin, Progress, write_state
from tfcli.runs.config import read_config, read_run_data, write_config
from tfcli.runs.directory import RunDirectory
from tfcli.runs.metrics import append_metrics, read_metrics
from tfcli.runs.weights import ABOUT, StoredTensors, checkpoint_tensors, require_belonging, save_tensors


def branch(source: RunDirectory, recipe: Recipe, checkpoint: Checkpoint, new: RunDirectory, *, asked: Settings) -> None:
    """Write the new run, whole or not at all; the old one is only read.

    Args:
        recipe: of the old run at that checkpoint, which the new one begins with.
        asked: what it will change at once; other changes make another id.

    Raises:
        BrokenInputError: a file is damaged, or belongs to another run.
    """
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
            stored = StoredTensors(file)
            require_belonging(stored.metadata, file, config.run_id, step)
            save_tensors(file, stored, {**stored.metadata, "run_id": run_id})
        for parts in folder.glob("*.parts"):
            about = read_json(parts / ABOUT)
            require_belonging(about, parts, config.run_id, step)
            write_json(parts / ABOUT, {**about, "run_id": run_id})
        weights = checkpoint_tensors(checkpoint, "model", config.run_id)
        if recipe.train.ema_decay:
            remembered = checkpoint_tensors(checkpoint, "optimizer", config.run_id)
            weights = {name: remembered[f"average.{name}"] for name in weights}
        save_tensors(run.weights, weights, {"run_id": run_id})
        progress = _history(source, run, checkpoint.progress)
        append_metrics(run.metrics, SettingChanged(step, "run", str(checkpoint.folder), str(new.path)))
        roles, settings = asdict(config.roles), settings_that_decide(recipe)
        origin = Origin(run_id, config.tokenizer_fingerprint, data.fingerprint, roles, settings)
        write_state(folder, replace(progress, lines=progress.lines + 1), origin)
        write_text(run.recipe, to_toml(recipe))


def _history(source: RunDirectory, new: RunDirectory, progress: Progress) -> Progress:
    """Copy the metrics up to the checkpoint, and of the evaluations that of its own step: the weights that were the
    best before are not there any more."""
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
