"""Experiment listing (`runs list`): a run in a line, a damaged one too, from small files alone, without a weight."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any

from tfcli.data.shards import read_manifest
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import cache_folder, read_json
from tfcli.models.presets import usual_preset
from tfcli.recipe.loading import build_recipe, load_recorded, setting
from tfcli.recipe.recipe import DECIDED_BY_THE_RUN, DECISIVE, Recipe, known_keys
from tfcli.recipe.train import BATCH_SIZE, EVALUATE_TOKENS
from tfcli.records import runs as records
from tfcli.runs.checkpoint import finished_reason, last_checkpoint
from tfcli.runs.config import RunData, count_numbers, read_config, read_run_data
from tfcli.runs.directory import RunDirectory, existing_run, is_held, name_of
from tfcli.runs.metrics import read_evaluations, read_history
from tfcli.runs.seeds import seed_differences, seed_spreads


def summarize(run: RunDirectory) -> records.RunSummary:
    """A run that was found. What is wrong with it, if anything, is in the summary."""
    try:
        return summary_of(run, load_recorded(run.recipe), read_evaluations(run.metrics), name_of(run))
    except (TfcliError, OSError) as error:
        problem = error.problem if isinstance(error, TfcliError) else str(error)
        return records.RunSummary(str(run.path), name_of(run), "damaged", _age(run), problem=problem)


def summary_of(run: RunDirectory, recipe: Recipe, history: records.History, name: str) -> records.RunSummary:
    """What a run's recipe, weights, metrics and last checkpoint say of it; a `TfcliError` where one is damaged."""
    _require_whole(run)
    parameters, best, last = count_numbers(run.weights), history.best, next(reversed(history.training), None)
    state: records.RunState = "imported"
    reached = [last.step] if last else []
    seconds = [last.seconds] if last else []
    if not recipe.is_imported:
        checkpoint = last_checkpoint(run)
        reached.append(checkpoint.step if checkpoint else 0)
        seconds += [checkpoint.progress.seconds] if checkpoint else []
        is_finished = checkpoint and finished_reason(checkpoint.progress, recipe.train)
        state = "finished" if is_finished else "running" if is_held(run) else "interrupted"
    return records.RunSummary(
        path=str(run.path),
        name=name,
        state=state,
        age_seconds=_age(run),
        architecture=recipe.model.architecture,
        parameters=parameters,
        step=max(reached, default=None),
        total_steps=None if recipe.is_imported else recipe.train.steps,
        tokens=last.tokens if last else None,
        best_loss=best.loss if best else None,
        best_step=best.step if best else None,
        seconds=max(seconds, default=None),
    )


def _require_whole(run: RunDirectory) -> None:
    """Refuse a run one of whose small files is empty or no JSON; of the tokenizer, both ends are looked at."""
    for path in (run.config, run.data):
        if path.is_file() or path == run.config:
            read_json(path)
    if not run.recipe.read_bytes().strip():
        raise BrokenInputError(f"{run.recipe} is empty", "restore it")
    if not run.tokenizer.is_file():  # a pipe would never end
        raise BrokenInputError(f"{run.tokenizer} is not there", "restore it")
    with run.tokenizer.open("rb") as file:
        begin = file.read(1)
        file.seek(-min(4, run.tokenizer.stat().st_size), os.SEEK_END)
        if begin != b"{" or not file.read().rstrip().endswith(b"}"):
            raise BrokenInputError(f"{run.tokenizer} is truncated or no JSON", "restore it")


def _age(run: RunDirectory) -> float:
    """Seconds since the run was last written to."""
    written = [path.stat().st_mtime for path in (run.metrics, run.weights, run.recipe) if path.is_file()]
    return max(0.0, time.time() - max(written, default=time.time()))


_TEXT = ("sources", "split", "train_documents", "validation_documents", "fingerprint")
# What a run records of settings that its recipe left open, whatever the machine.
_AS_DECIDED = {"train.batch_size": BATCH_SIZE, "train.batch_tokens": None, "train.evaluate_tokens": EVALUATE_TOKENS}


def read_detail(path: Path) -> records.RunDetail:
    """Everything that a run's files say of it, but its weights. Raises what `existing_run` and `read_config` raise."""
    run = existing_run(path)
    recipe, config, history = load_recorded(run.recipe), read_config(run.config), read_history(run.metrics)
    data, text, algorithm, fingerprint = None, None, None, config.tokenizer_fingerprint
    if not recipe.is_imported:
        data = read_run_data(run.data)
        text = {name: getattr(data, name) for name in _TEXT}
        algorithm = recipe.tokenizer.algorithm if recipe.tokenizer.path is None else None
    return records.RunDetail(
        summary=summary_of(run, recipe, history, str(path)),
        objective=recipe.objective,
        model=asdict(config.model),
        tokenizer={"algorithm": algorithm, "vocab_size": config.model.vocab_size, "fingerprint": fingerprint},
        text=text,
        origin=recipe.origin.source or None,
        settings=tuple(_unusual(recipe)),
        history=history,
        kept=tuple(_kept(run)),
        bits_per_byte=_bits_per_byte(recipe, data, history),
    )


def compare(paths: Sequence[Path]) -> records.RunComparison:
    """Runs side by side; a `UsageError` where they are fewer than two, or one is named twice."""
    if len(paths) < 2:
        raise UsageError("One run cannot be compared", "name two or more, or use `tfcli runs show`")
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("The same run is named twice", "name each run once")
    runs = tuple(read_detail(path) for path in paths)
    notes = tuple(_incomparable(runs))
    recipes = [load_recorded(RunDirectory(path).recipe) for path in paths]
    differing = ((key, values) for key, values in _settings(recipes) if any(value != values[0] for value in values))
    settings = tuple(starmap(records.SettingRow, differing))
    spreads = seed_spreads(runs, settings)
    seeds = [recipe.train.seed for recipe in recipes]
    return records.RunComparison(
        runs=runs,
        settings=settings,
        comparable=not notes,
        spreads=tuple(spreads),
        notes=notes,
        differences=tuple(seed_differences(runs, spreads, seeds)) if not notes else (),
    )


def _unusual(recipe: Recipe) -> Iterator[records.Setting]:
    """The settings that are not what a recipe of this architecture has by itself, nor what the machine decides."""
    own = {"model": {"architecture": recipe.model.architecture}}
    usual = build_recipe(usual_preset(own), own).resolved()
    for key, (value, default) in _settings([recipe, usual], ("model",) if recipe.is_imported else DECISIVE):
        default = _AS_DECIDED.get(key, default)
        is_open = key in DECIDED_BY_THE_RUN and key not in _AS_DECIDED
        repeats_another = key == "train.context" and value == recipe.model.max_seq_len
        if value not in (default, None) and not is_open and not repeats_another:
            yield records.Setting(key, value, default)


def _settings(recipes: Sequence[Recipe], sections: Sequence[str] = DECISIVE) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every setting with its value in each of the recipes."""
    for key in known_keys():
        if key.partition(".")[0] in sections:
            yield key, tuple(setting(recipe, key) for recipe in recipes)


def _incomparable(runs: Sequence[records.RunDetail]) -> Iterator[str]:
    """Why the losses of these runs are not of one kind."""
    if len({run.objective for run in runs}) > 1:
        yield "The runs minimise different objectives, so their losses are not comparable."
    per_label = all(run.objective in ("classify", "tag") for run in runs)  # whatever a token is
    if not per_label and len({run.tokenizer["fingerprint"] for run in runs}) > 1:
        yield "The runs have different tokenizers, so their losses per token are not comparable; bits per byte are."
    texts = [[run.text[name] for name in _TEXT[:-1]] for run in runs if run.text is not None]
    if any(text != texts[0] for text in texts):
        yield "The runs are scored on different texts, so one text may be the easier one."


def _kept(run: RunDirectory) -> Iterator[records.KeptFile]:
    if run.weights.is_file():
        yield records.KeptFile(run.weights.name, run.weights.stat().st_size)
    for folder in run.checkpoints().values():
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        yield records.KeptFile(f"checkpoints/{folder.name}", size)


def _bits_per_byte(recipe: Recipe, data: RunData | None, history: records.History) -> float | None:
    """Of a decoder's best evaluation, where the prepared dataset is there to tell the size of its text."""
    best = history.best
    if data is None or best is None or best.loss is None or best.part == "sample" or recipe.objective != "clm":
        return None
    source = recipe.data.source
    folders = [cache_folder() / "datasets" / data.fingerprint, *([Path(source)] if isinstance(source, str) else [])]
    for folder in folders:
        with suppress(TfcliError):
            manifest = read_manifest(folder)
            if manifest.fingerprint == data.fingerprint and manifest.validation.counts.bytes:
                return best.loss * best.scored_tokens / (manifest.validation.counts.bytes * math.log(2))
    return None
