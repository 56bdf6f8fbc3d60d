"""The training loop: a generator of events. It neither prints nor draws."""

import math
import time
from collections.abc import Callable, Iterator, Sequence

import torch

from tfcli.data.batch import Batch
from tfcli.errors import TfcliError
from tfcli.evaluation.loss import total_loss
from tfcli.recipe.train import TrainSection
from tfcli.records.training import (
    CheckpointSaved,
    Evaluated,
    Reason,
    StepsDone,
    TrainingEvent,
    TrainingFinished,
    TrainingStarted,
)
from tfcli.runs.directory import RunDirectory
from tfcli.runs.metrics import append_metrics
from tfcli.runs.weights import model_tensors, save_tensors
from tfcli.training.job import TrainingJob
from tfcli.training.schedule import share_of_peak
from tfcli.training.state import Progress, save_checkpoint
from tfcli.training.step import optimizer_step


def train(job: TrainingJob, should_stop: Callable[[], bool] = lambda: False) -> Iterator[TrainingEvent]:
    """Train to the last step, evaluating, saving and reporting as the recipe says.

    `should_stop` is asked after every step; once it says yes, the step is saved and the loop ends.

    Raises:
        TfcliError: the loss is no longer finite; the last good checkpoint is kept.
    """
    section, progress = job.recipe.train, job.progress
    clock, window = _Clock(progress.seconds), _Window.resumed(progress, job.device)
    yield _started(job)
    batches = job.training.training(progress.step * section.grad_accumulation)
    job.model.train()
    reason = _reason_to_end(job, stop=False)
    while reason is None:
        micro_batches = [next(batches) for _ in range(section.grad_accumulation)]
        share = share_of_peak(progress.step + 1, section)
        loss, norm = optimizer_step(
            job.objective, job.optimizers, micro_batches, share_of_peak=share, clip_norm=section.clip_norm
        )
        window.add(loss, micro_batches)
        progress.step += 1
        progress.tokens += sum(batch.tokens for batch in micro_batches)
        last, stop = progress.step == section.steps, should_stop()
        if last or _due(progress.step, section.log_every):
            _require_finite(job, window, norm)
            yield _reported(job, window, float(norm), share * section.learning_rate, clock)
            window = _Window(job.device)
        if last or _due(progress.step, section.evaluate_every):
            _require_finite(job, window, norm)
            yield _evaluated(job, clock)
            window.pause(clock.evaluation)
        reason = _reason_to_end(job, stop)
        if reason is not None or _due(progress.step, section.save_every):
            _require_finite(job, window, norm)
            progress.seconds, progress.finished = clock.seconds(), reason in ("done", "early")
            progress.pending_loss, progress.pending_targets = float(window.loss), window.targets
            yield _saved(job, window)
    yield finished_event(job.run, progress, reason)


def finished_event(run: RunDirectory, progress: Progress, reason: Reason) -> TrainingFinished:
    """What the last event of a training says."""
    return TrainingFinished(
        reason, progress.step, progress.tokens, progress.seconds, progress.best_loss, progress.best_step, str(run.path)
    )


def reason_of(progress: Progress, section: TrainSection) -> Reason:
    """Why a finished run ended: at its last step, or before it, because no evaluation was better."""
    return "done" if progress.step >= section.steps else "early"


def _reason_to_end(job: TrainingJob, stop: bool) -> Reason | None:
    section, progress = job.recipe.train, job.progress
    if progress.step >= section.steps or 0 < section.patience <= progress.stale:
        return reason_of(progress, section)
    return "interrupted" if stop else None


class _Clock:
    """Seconds since the run began, across interruptions, and what one evaluation took."""

    def __init__(self, before: float) -> None:
        self.before, self.began = before, time.perf_counter()
        self.evaluation = 0.0

    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.began


class _Window:
    """Sums over the steps since the last report; the loss stays on the device until it is reported.

    `tokens` and `steps` are those of this process alone, for they go with its time.
    """

    def __init__(self, device: torch.device) -> None:
        self.loss = torch.zeros((), device=device)
        self.targets, self.tokens, self.steps = 0, 0, 0
        self.began = time.perf_counter()

    @classmethod
    def resumed(cls, progress: Progress, device: torch.device) -> "_Window":
        """What the checkpoint had not reported yet."""
        window = cls(device)
        window.loss += progress.pending_loss
        window.targets = progress.pending_targets
        return window

    def pause(self, seconds: float) -> None:
        """Leave out time that was not spent on steps."""
        self.began += seconds

    def seconds(self) -> float:
        """Spent on the steps so far; true once the device has caught up, as reading the loss makes it."""
        return time.perf_counter() - self.began

    def add(self, loss: torch.Tensor, batches: Sequence[Batch]) -> None:
        targets = sum(batch.target_tokens for batch in batches)
        self.loss += loss * targets
        self.targets += targets
        self.tokens += sum(batch.tokens for batch in batches)
        self.steps += 1


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _started(job: TrainingJob) -> TrainingStarted:
    section = job.recipe.train
    return TrainingStarted(
        run=str(job.run.path),
        architecture=job.recipe.model.architecture,
        parameters=job.model.num_parameters(),
        step=job.progress.step,
        total_steps=section.steps,
        tokens_per_step=job.training.tokens_per_batch * section.grad_accumulation,
        train_tokens=job.data.train.tokens,
        validation_tokens=job.data.validation.tokens,
        device=str(job.device),
        precision=section.precision,
        left_out=job.left_out,
    )


def _require_finite(job: TrainingJob, window: _Window, norm: torch.Tensor) -> None:
    """Asked before anything is reported, scored or saved, so that broken weights never replace good ones. A gradient
    that is not finite has spoilt the weights already, one step before the loss shows it."""
    for what, value in (("loss", float(window.loss)), ("gradient norm", float(norm))):
        if not math.isfinite(value):
            kept = max(job.run.checkpoints())
            raise TfcliError(
                f"The {what} became {value} up to step {job.progress.step} (the checkpoint of step {kept} is kept)",
                f"lower train.learning_rate (now {job.recipe.train.learning_rate:g}) and train into a new --out",
            )


def _reported(job: TrainingJob, window: _Window, norm: float, rate: float, clock: _Clock) -> StepsDone:
    section, progress = job.recipe.train, job.progress
    loss, seconds = float(window.loss) / max(window.targets, 1), window.seconds()
    steps_left = section.steps - progress.step
    evaluations_left = 1 + (steps_left // section.evaluate_every if section.evaluate_every else 0)
    event = StepsDone(
        step=progress.step,
        total_steps=section.steps,
        tokens=progress.tokens,
        loss=loss,
        learning_rate=rate,
        grad_norm=norm,
        tokens_per_second=window.tokens / seconds,
        seconds=clock.seconds(),
        seconds_left=steps_left * seconds / window.steps + evaluations_left * clock.evaluation,
    )
    append_metrics(job.run.metrics, event)
    return event


def _evaluated(job: TrainingJob, clock: _Clock) -> Evaluated:
    progress, began = job.progress, time.perf_counter()
    totals = total_loss(job.model, job.validation.whole(), job.device)
    best = progress.best_loss is None or totals.loss < progress.best_loss
    if best:
        progress.best_loss, progress.best_step, progress.stale = totals.loss, progress.step, 0
        _save_best(job)
    else:
        progress.stale += 1
    clock.evaluation = time.perf_counter() - began
    event = Evaluated(progress.step, totals.tokens, totals.loss, totals.accuracy, best, clock.evaluation)
    append_metrics(job.run.metrics, event)
    return event


def _saved(job: TrainingJob, window: _Window) -> CheckpointSaved:
    began = time.perf_counter()
    folder = save_checkpoint(job.run, job.config.run_id, job.model, job.optimizers, job.progress)
    if job.progress.best_step is None:  # not evaluated yet: the run shall load all the same
        _save_best(job)
    window.pause(time.perf_counter() - began)
    return CheckpointSaved(job.progress.step, str(folder))


def _save_best(job: TrainingJob) -> None:
    save_tensors(job.run.weights, model_tensors(job.model), {"run_id": job.config.run_id})
