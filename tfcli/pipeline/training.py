"""Training from a recipe: begin a run, continue the one that is there, or refuse."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfcli.errors import UsageError
from tfcli.files import require_writable, write_text
from tfcli.models.head import require_head
from tfcli.pipeline.datasets import Report, dataset_of_run, obtain_data, require_same_text, with_absolute_paths
from tfcli.recipe.loading import load_recorded
from tfcli.recipe.origin import OriginSection
from tfcli.recipe.recipe import Recipe, first_difference
from tfcli.records.pipeline import StageStarted
from tfcli.records.training import TrainingFinished
from tfcli.runs.card import run_card
from tfcli.runs.directory import RunDirectory, existing_run, free_run, next_run_path
from tfcli.runs.load import load_run
from tfcli.runs.lock import held
from tfcli.training.initial import require_same_model
from tfcli.training.job import TrainingJob, resume, start
from tfcli.training.loop import finished_event, reason_of, train
from tfcli.training.state import read_progress

ShouldStop = Callable[[], bool]


def train_recipe(
    recipe: Recipe, out: Path | None, report: Report, should_stop: ShouldStop, init: Path | None = None
) -> TrainingFinished:
    """Train a recipe into `out`, or into `runs/<name>-<n>`.

    A folder that holds a run of the same recipe is continued.

    Raises:
        UsageError: the folder holds a run of another recipe (names the first setting that differs) or something else,
            or another process trains into it.
    """
    if init is not None:
        recipe = replace(recipe, train=replace(recipe.train, init=str(init)))
    elif recipe.is_imported:
        raise UsageError(
            f"The recipe is that of a run imported from {recipe.origin.source}, and says nothing of training",
            "begin with its weights: tfcli train --init RUN --data SOURCE",
        )
    require_head(recipe.model)
    recipe = replace(with_absolute_paths(recipe.resolved()), origin=OriginSection())
    if out is not None and RunDirectory(out).holds_run():
        _require_same_recipe(recipe, RunDirectory(out))
        return resume_run(out, report, should_stop)
    run = free_run(out or next_run_path(recipe.name))
    require_writable(run.path)
    initial = load_run(recipe.train.init) if recipe.train.init is not None else None
    if initial is not None:
        require_same_model(recipe.model, initial)
        recipe = replace(recipe, tokenizer=replace(recipe.tokenizer, path=str(initial.directory.tokenizer)))
    tokenizer, data = obtain_data(recipe, report)
    report(StageStarted("training", str(run.path)))
    job = start(recipe, data, tokenizer, run, initial)
    with held(run):
        return _drive(job, report, should_stop)


def resume_run(path: Path, report: Report, should_stop: ShouldStop) -> TrainingFinished:
    """Go on with an interrupted run; of a finished one, say so and do nothing."""
    run = existing_run(path)
    recipe = load_recorded(run.recipe)
    if recipe.is_imported:
        raise UsageError(
            f"The run {path} was imported, and there is no training to go on with", "begin one with --init"
        )
    progress = read_progress(run)
    if progress is not None and progress.finished:
        report(StageStarted("training", str(path), reused=True))
        return finished_event(run, progress, reason_of(progress, recipe.train))
    with held(run):
        data = dataset_of_run(run, recipe, report)
        report(StageStarted("training", str(path)))
        return _drive(resume(run, recipe, data), report, should_stop)


def _require_same_recipe(recipe: Recipe, run: RunDirectory) -> None:
    recorded = load_recorded(run.recipe)
    if recorded.is_imported:
        raise UsageError(f"{run.path} holds a run imported from {recorded.origin.source}", "choose another --out")
    difference = first_difference(recipe, recorded)
    if difference is not None:
        key, wanted, found = difference
        raise UsageError(
            f"{run.path} holds a run with {key} = {_shown(found)}, and {_shown(wanted)} is asked for",
            "choose another --out, or the same settings",
        )
    require_same_text(run, recipe)


def _drive(job: TrainingJob, report: Report, should_stop: ShouldStop) -> TrainingFinished:
    for event in train(job, should_stop):
        report(event)
        if isinstance(event, TrainingFinished):
            write_text(job.run.readme, run_card(job.recipe, event))
            return event
    raise AssertionError("a training ends with TrainingFinished")


def _shown(value: Any) -> str:
    return "the default" if value is None else repr(value)
