"""Checkpoint retention: which checkpoints stay, and which are averaged at the end."""

from collections.abc import Collection
from pathlib import Path

from tfcli.recipe.train import TrainSection
from tfcli.runs.directory import RunDirectory
from tfcli.training.schedule import decay_begin


def checkpoints_to_keep(steps: Collection[int], section: TrainSection) -> set[int]:
    """The last one, and of those before it the last that were due: train.keep_checkpoints together. Under wsd also the
    last one from before the decay, for what is to go on at the peak.

    One that only an interruption has brought goes with the next, so that a resumed run has what the unbroken one has.
    """
    last = max(steps)
    at_peak = [step for step in steps if 0 < step <= decay_begin(section)] if section.schedule == "wsd" else []
    kept = {last, *_last_due(steps, last, section, section.keep_checkpoints - 1)}
    return kept | set(_last_due(at_peak, last, section, 1))


def checkpoints_to_average(run: RunDirectory, step: int, section: TrainSection) -> list[Path]:
    """Those that make train.average_checkpoints together with the weights of this step, the last one; never the initial
    weights, which are not trained."""
    checkpoints = run.checkpoints()
    trained = [saved for saved in checkpoints if saved > 0]
    return [checkpoints[due] for due in _last_due(trained, step, section, section.average_checkpoints - 1)]


def _last_due(steps: Collection[int], before: int, section: TrainSection, count: int) -> list[int]:
    due = [step for step in sorted(steps) if step < before and section.save_every and step % section.save_every == 0]
    return due[max(0, len(due) - count) :]
