"""Experiment listing (`runs list`): a run in a line, from small files alone. No weight is read, and a damaged run is a
line, too."""

import os
import time

from tfcli.errors import BrokenInputError, TfcliError
from tfcli.files import read_json
from tfcli.recipe.loading import load_recorded
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import History, RunState, RunSummary
from tfcli.runs.checkpoint import last_checkpoint
from tfcli.runs.directory import RunDirectory
from tfcli.runs.ending import over
from tfcli.runs.finding import name_of
from tfcli.runs.header import count_numbers
from tfcli.runs.history import read_landmarks
from tfcli.runs.lock import is_held


def summarize(run: RunDirectory) -> RunSummary:
    """A run that was found. What is wrong with it, if anything, is in the summary."""
    try:
        recipe = load_recorded(run.recipe)
        return summary_of(run, recipe, read_landmarks(run.metrics), name_of(run))
    except (TfcliError, OSError) as error:
        problem = error.problem if isinstance(error, TfcliError) else str(error)
        return RunSummary(str(run.path), name_of(run), "damaged", _age(run), problem=problem)


def summary_of(run: RunDirectory, recipe: Recipe, history: History, name: str) -> RunSummary:
    """What a run's recipe, weights, metrics and last checkpoint say of it.

    Raises:
        TfcliError: the weights or the checkpoint's counters are missing or damaged.
    """
    _require_whole(run)
    parameters = count_numbers(run.weights)
    state: RunState = "imported"
    reached, seconds = None, None
    if not recipe.is_imported:
        checkpoint = last_checkpoint(run)
        reached = checkpoint.step if checkpoint else 0
        seconds = checkpoint.progress.seconds if checkpoint else None
        if checkpoint and over(checkpoint.progress, recipe.train) is not None:
            state = "finished"
        else:
            state = "running" if is_held(run) else "interrupted"
    last, best = history.training[-1] if history.training else None, history.best
    if last is not None:
        reached = max(last.step, reached or 0)
    return RunSummary(
        path=str(run.path),
        name=name,
        state=state,
        age_seconds=_age(run),
        architecture=recipe.model.architecture,
        parameters=parameters,
        step=reached,
        total_steps=None if recipe.is_imported else recipe.train.steps,
        tokens=last.tokens if last else None,
        best_loss=best.loss if best else None,
        best_step=best.step if best else None,
        seconds=max((s for s in (seconds, last.seconds if last else None) if s is not None), default=None),
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
