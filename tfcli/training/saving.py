"""Writing a run while it trains: metrics, best weights and checkpoints; nothing else of the loop writes a file.

Of several workers the first one writes, and what fails for one of them fails for all.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfcli.errors import TfcliError
from tfcli.files import replacing, write_text
from tfcli.recipe.saving import to_toml
from tfcli.records.training import Evaluated, SettingChanged, StepsDone
from tfcli.runs.checkpoint import write_state
from tfcli.runs.metrics import append_metrics, flush_metrics
from tfcli.runs.parts import whole
from tfcli.runs.weights import model_tensors, save_tensors
from tfcli.training.checkpoints import checkpoints_to_keep
from tfcli.training.job import TrainingJob
from tfcli.training.state import save_checkpoint


def record_changes(job: TrainingJob) -> Iterator[SettingChanged]:
    """Put what a resume has changed into the metrics, and then into the recipe: each as soon as it is asked for."""
    for change in job.changes:
        append(job, change)
        yield change
    if job.changes:
        with _keeping_the_last(job):
            if job.workers.is_first:
                flush_metrics(job.run.metrics)
                write_text(job.run.recipe, to_toml(job.recipe))


def append(job: TrainingJob, event: StepsDone | Evaluated | SettingChanged) -> None:
    """Add a line to metrics.jsonl."""
    with _keeping_the_last(job):
        if job.workers.is_first:
            append_metrics(job.run.metrics, event)
    job.progress.lines += 1


def save_best(job: TrainingJob, instead_of: int | None = None) -> None:
    """What the model holds now becomes what the run is loaded with.

    Args:
        instead_of: the step of the best weights so far, to be found again if the counters are never saved.
    """
    tensors = {name: whole(tensor.detach()) for name, tensor in model_tensors(job.model).items()}
    with _keeping_the_last(job):
        if job.workers.is_first:
            if instead_of is not None:
                with replacing(job.run.aside(instead_of)) as temporary:
                    shutil.copyfile(job.run.weights, temporary)
            save_tensors(job.run.weights, tensors, {"run_id": job.config.run_id})


def save_progress(job: TrainingJob) -> Path:
    """Write a checkpoint; the older ones go only once it is on the disk, and with it the metrics up to it."""
    with _keeping_the_last(job):
        if job.workers.is_first:
            flush_metrics(job.run.metrics)
    with _keeping_the_last(job):
        folder = save_checkpoint(
            job.run, job.origin, job.model, job.optimizers, job.progress, average=job.average, workers=job.workers
        )
        if job.workers.is_first:
            job.run.prune(checkpoints_to_keep(job.run.checkpoints(), job.recipe.train))
    return folder


def save_counters(job: TrainingJob) -> None:
    """Put into the checkpoint of this step what its evaluation has found."""
    with _keeping_the_last(job):
        if job.workers.is_first:
            flush_metrics(job.run.metrics)
            write_state(job.run.checkpoint(job.progress.step), job.progress, job.origin)
            job.run.sweep()


@contextmanager
def _keeping_the_last(job: TrainingJob) -> Iterator[None]:
    """What cannot be written ends the training; the sentence says what there is to go on from."""
    try:
        with job.workers.together():
            yield
    except (TfcliError, OSError) as error:
        problem = error.problem if isinstance(error, TfcliError) else f"Cannot write {error.filename}: {error.strerror}"
        raise TfcliError(
            f"{problem} ({job.run.kept()})",
            f"make room there and go on with `tfcli train --resume {job.run.path}`",
        ) from error
