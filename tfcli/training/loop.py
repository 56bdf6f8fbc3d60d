"""The training loop: a generator of events. It neither prints nor draws."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch

from tfcli.evaluation.loss import total_loss
from tfcli.recipe.train import TrainSection
from tfcli.records.training import (
    CheckpointSaved,
    Evaluated,
    Reason,
    Scored,
    StepsDone,
    TrainingEvent,
    TrainingStarted,
)
from tfcli.runs.metrics import read_metrics
from tfcli.threads import busy_cores
from tfcli.training.averaging import exchanged, mean_of_weights
from tfcli.training.checkpoints import checkpoints_to_average
from tfcli.training.ending import finished_event, reason_to_end
from tfcli.training.finite import asking_is_free, count_left_out, require_finite
from tfcli.training.job import TrainingJob
from tfcli.training.parallel import gathered
from tfcli.training.prefetch import ahead
from tfcli.training.saving import append, record_changes, save_best, save_progress
from tfcli.training.schedule import learning_rate, share_of_peak
from tfcli.training.spikes import SpikeWatch
from tfcli.training.step import optimizer_step
from tfcli.training.update_sizes import UpdateSizes
from tfcli.training.window import Clock, Window


def train(job: TrainingJob, should_stop: Callable[[], bool] = lambda: False) -> Iterator[TrainingEvent]:
    """Train to the last step, evaluating, saving and reporting as the recipe says.

    `should_stop` is asked after every step; once it says yes, the step is saved and the loop ends.

    Raises:
        TfcliError: the loss is no longer finite, or a file cannot be written; the last good checkpoint is kept.
    """
    section, progress = job.recipe.train, job.progress
    clock, window = Clock(progress.seconds), Window.resumed(progress, job.device)
    spikes = SpikeWatch(read_metrics(job.run.metrics))
    yield _started(job)
    yield from record_changes(job)
    batches = ahead(job.training.training(progress.step * section.grad_accumulation), job.device)
    job.model.train()
    reason: Reason | None = reason_to_end(progress, section)
    while reason is None:
        micro_batches = [next(batches) for _ in range(section.grad_accumulation)]
        share = share_of_peak(progress.step + 1, section)
        sizes = UpdateSizes(job.model) if _reports(progress.step + 1, section) else None
        loss, norm = optimizer_step(
            job.objective,
            job.optimizers,
            micro_batches,
            share_of_peak=share,
            clip_norm=section.clip_norm,
            only_finite=section.skip_nonfinite > 0,
            workers=job.workers,
            measured=sizes,
        )
        progress.step += 1
        progress.tokens += sum(batch.tokens for batch in micro_batches)
        if section.skip_nonfinite and not bool(torch.isfinite(loss) & torch.isfinite(norm)):
            count_left_out(job, float(loss), float(norm))
            window.leave_out(norm, micro_batches)
        else:
            window.add(progress.step, loss, norm, micro_batches)
            if job.average:
                job.average.update(job.model, progress.updates)
        last, stop = progress.step == section.steps, job.workers.any(should_stop())
        if asking_is_free(job.device):
            require_finite(job, window)
        if sizes is not None:
            require_finite(job, window)
            yield _reported(job, window, spikes, learning_rate(progress.step, section), clock, sizes)
            window = Window(job.device)
        if last or _due(progress.step, section.evaluate_every):
            require_finite(job, window)
            yield _evaluated(job, clock)
            window.pause(clock.evaluation)
        reason = reason_to_end(progress, section) or ("interrupted" if stop else None)
        ended = reason in ("done", "early")
        if ended and section.average_checkpoints:
            yield _evaluated_mean(job, clock)
        if reason is not None or _due(progress.step, section.save_every):
            require_finite(job, window)
            progress.seconds, progress.finished = clock.seconds(), ended
            window.keep(progress)
            yield _saved(job, window)
    yield finished_event(job.run, progress, reason)


def _reports(step: int, section: TrainSection) -> bool:
    return step == section.steps or _due(step, section.log_every)


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
        threads=torch.get_num_threads(),
        busy_cores=busy_cores(),
        left_out=job.left_out,
        lost_lines=job.lost_lines,
        without_digest=job.without_digest,
    )


def _reported(
    job: TrainingJob, window: Window, spikes: SpikeWatch, rate: float, clock: Clock, sizes: UpdateSizes
) -> StepsDone:
    section, progress = job.recipe.train, job.progress
    loss, norm, seconds = window.loss(), float(window.norm), window.seconds()
    steps_left = section.steps - progress.step
    evaluations_left = 1 + (steps_left // section.evaluate_every if section.evaluate_every else 0)
    event = StepsDone(
        step=progress.step,
        total_steps=section.steps,
        tokens=progress.tokens,
        loss=loss,
        learning_rate=rate,
        grad_norm=norm,
        tokens_per_second=window.steps_tokens / seconds,
        seconds=clock.seconds(),
        seconds_left=steps_left * seconds / window.steps + evaluations_left * clock.evaluation,
        padding=window.padding(),
        skipped=progress.skipped,
        spike=spikes.is_spike(loss),
        weight_norms=sizes.norms(),
        update_ratios=sizes.ratios(),
    )
    append(job, event)
    return event


def _evaluated(job: TrainingJob, clock: Clock) -> Evaluated:
    """Score what is kept as the best: the weights, or their moving average where there is one."""
    with _averaged(job):
        event = _scored(job, clock, "moving_average" if job.average else "weights")
    job.progress.stale = 0 if event.best else job.progress.stale + 1
    append(job, event)
    return event


def _evaluated_mean(job: TrainingJob, clock: Clock) -> Evaluated:
    """Score the mean of the weights of this step and of the checkpoints before it."""
    others = checkpoints_to_average(job.run, job.progress.step, job.recipe.train)
    with exchanged(job.model, mean_of_weights(job.model, others, job.config.run_id, job.workers)):
        event = _scored(job, clock, "checkpoints")
    append(job, event)
    return event


def _scored(job: TrainingJob, clock: Clock, of: Scored) -> Evaluated:
    progress, began = job.progress, time.perf_counter()
    with gathered(job.objective):
        totals = total_loss(job.model, job.workers.shares(job.validation.whole()), job.device, job.workers.sum)
    best = math.isfinite(totals.loss) and (progress.best_loss is None or totals.loss < progress.best_loss)
    if best:
        progress.best_loss, progress.best_step = totals.loss, progress.step
        save_best(job)
    clock.evaluation = time.perf_counter() - began
    return Evaluated(progress.step, totals.tokens, totals.loss, totals.accuracy, best, clock.evaluation, of)


def _averaged(job: TrainingJob) -> AbstractContextManager[None]:
    return exchanged(job.model, job.average.tensors) if job.average else nullcontext()


def _saved(job: TrainingJob, window: Window) -> CheckpointSaved:
    began = time.perf_counter()
    if job.progress.best_step is None:  # not evaluated yet: the run shall load all the same
        with _averaged(job):
            save_best(job)
    folder = save_progress(job)
    window.pause(time.perf_counter() - began)
    return CheckpointSaved(job.progress.step, str(folder))
