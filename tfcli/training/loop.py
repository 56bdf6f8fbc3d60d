"""The training loop, a generator of events: steps, evaluations, checkpoints, early stopping, throughput."""

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch

from tfcli.evaluation.loss import total_loss
from tfcli.machine import busy_cores
from tfcli.recipe.train import TrainSection
from tfcli.records.training import (
    CheckpointSaved,
    Evaluated,
    Reason,
    Scope,
    Scored,
    StepsDone,
    TrainingEvent,
    TrainingStarted,
)
from tfcli.runs.ending import finished_event, reason_to_end
from tfcli.runs.metrics import read_metrics
from tfcli.training.averaging import exchanged, mean_of_weights, weights_of_file
from tfcli.training.checkpoints import checkpoints_to_average
from tfcli.training.finite import asking_is_free, count_left_out, require_finite
from tfcli.training.job import TrainingJob
from tfcli.training.meter import Clock, Meter
from tfcli.training.parallel import gathered
from tfcli.training.prefetch import ahead
from tfcli.training.saving import append, record_changes, save_best, save_counters, save_progress
from tfcli.training.schedule import learning_rate, learning_rate_factor
from tfcli.training.spikes import SpikeWatch
from tfcli.training.step import optimizer_step
from tfcli.training.update_sizes import UpdateSizes


def train(job: TrainingJob, should_stop: Callable[[], bool] = lambda: False) -> Iterator[TrainingEvent]:
    """Train to the last step, evaluating, saving and reporting as the recipe says.

    `should_stop` is asked after every step; once it says yes, the step is saved and the loop ends.

    Raises:
        TfcliError: the loss is no longer finite, or a file cannot be written; the last good checkpoint is kept.
    """
    section, progress = job.recipe.train, job.progress
    clock, meter = Clock(progress.seconds), Meter.resumed(progress, job.device)
    spikes = SpikeWatch(read_metrics(job.run.metrics))
    yield _started(job)
    yield from record_changes(job)
    batches = ahead(job.training.training(progress.step * section.grad_accumulation), job.device)
    job.model.train()
    reason: Reason | None = reason_to_end(progress, section)
    if progress.unevaluated:
        reason = yield from _ended_step(job, meter, clock)
    if reason is None:
        progress.finished, progress.whole_loss = False, None
    while reason is None:
        micro_batches = [next(batches) for _ in range(section.grad_accumulation)]
        share = learning_rate_factor(progress.step + 1, section)
        sizes = UpdateSizes(job.model) if _reports(progress.step + 1, section) else None
        losses, norm = optimizer_step(
            job.objective,
            job.optimizers,
            micro_batches,
            learning_rate_factor=share,
            clip_norm=section.clip_norm,
            only_finite=section.skip_nonfinite > 0,
            workers=job.workers,
            measured=sizes,
        )
        progress.step += 1
        progress.tokens += sum(batch.tokens for batch in micro_batches)
        if section.skip_nonfinite and not bool(torch.isfinite(losses).all() & torch.isfinite(norm)):
            count_left_out(job, float(losses.sum()), float(norm))
            meter.leave_out(norm, micro_batches)
        else:
            meter.add(progress.step, losses, norm, micro_batches)
            if job.average:
                job.average.update(job.model, progress.updates)
        stop = job.workers.any(should_stop())
        if asking_is_free(job.device):
            require_finite(job, meter)
        if sizes is not None:
            require_finite(job, meter)
            yield _reported(job, meter, clock, spikes=spikes, sizes=sizes)
            meter = Meter(job.device)
        reason = yield from _ended_step(job, meter, clock, stop=stop)
    yield finished_event(job.run, progress, reason)


def _ended_step(
    job: TrainingJob, meter: Meter, clock: Clock, *, stop: bool = False
) -> Generator[TrainingEvent, None, Reason | None]:
    """What is due behind a step: a checkpoint, and then an evaluation, so that one that dies loses nothing.

    Returns: why training ends here, if it does.
    """
    section, progress = job.recipe.train, job.progress
    last = progress.step == section.steps
    saved, due = progress.unevaluated, progress.unevaluated or last or _due(progress.step, section.evaluate_every)
    if not saved and (last or stop or _due(progress.step, section.save_every)):
        require_finite(job, meter)
        progress.unevaluated = saved = due
        yield _saved(job, meter, clock)
    reason = None
    if due:
        require_finite(job, meter)
        evaluated = _evaluated(job, clock)
        yield evaluated
        meter.pause(clock.evaluation)
        reason = reason_to_end(progress, section)
        progress.finished = reason is not None
        if progress.finished:
            yield from _ending(job, clock, evaluated)
    progress.unevaluated = False
    if saved:
        progress.seconds = clock.seconds()
        save_counters(job)
    elif progress.finished:
        yield _saved(job, meter, clock)
    return reason or ("interrupted" if stop else None)


def _ending(job: TrainingJob, clock: Clock, last: Evaluated) -> Iterator[Evaluated]:
    """What is scored behind the last evaluation."""
    is_best = last.best
    if job.recipe.train.average_checkpoints:
        mean = _evaluated_mean(job, clock)
        yield mean
        is_best = is_best and not mean.best
    if job.sample is not None:
        yield from _evaluated_whole(job, clock, last, is_best=is_best)


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
        warmup_steps=section.warmup_steps,
        left_out=job.left_out,
        lost_lines=job.lost_lines,
        batch_tokens=section.batch_tokens,
        evaluate_tokens=section.evaluate_tokens if job.sample is not None else None,
        without_digest=job.without_digest,
    )


def _reported(job: TrainingJob, meter: Meter, clock: Clock, *, spikes: SpikeWatch, sizes: UpdateSizes) -> StepsDone:
    section, progress = job.recipe.train, job.progress
    (loss, objective), norm, seconds = meter.losses(), float(meter.norm), meter.seconds()
    steps_left = section.steps - progress.step
    evaluations_left: float = 1 + (steps_left // section.evaluate_every if section.evaluate_every else 0)
    if job.sample is not None and section.evaluate_tokens:  # the whole part at the end, twice at most
        evaluations_left += 2 * job.data.validation.tokens / section.evaluate_tokens
    event = StepsDone(
        step=progress.step,
        total_steps=section.steps,
        tokens=progress.tokens,
        loss=loss,
        learning_rate=learning_rate(progress.step, section),
        grad_norm=norm,
        tokens_per_second=meter.steps_tokens / seconds,
        seconds=clock.seconds(),
        seconds_left=steps_left * seconds / meter.steps + evaluations_left * clock.evaluation,
        objective=objective if section.label_smoothing else None,
        padding=meter.padding(),
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
        event = _compared(job, _scored(job, clock, _of(job)))
    job.progress.stale = 0 if event.best else job.progress.stale + 1
    append(job, event)
    return event


def _evaluated_mean(job: TrainingJob, clock: Clock) -> Evaluated:
    """Score the mean of the weights of this step and of the checkpoints before it."""
    others = checkpoints_to_average(job.run, job.progress.step, job.recipe.train)
    with exchanged(job.model, mean_of_weights(job.model, others, job.config.run_id, job.workers)):
        event = _compared(job, _scored(job, clock, "checkpoints"))
    append(job, event)
    return event


def _evaluated_whole(job: TrainingJob, clock: Clock, last: Evaluated, *, is_best: bool) -> list[Evaluated]:
    """Score the best weights by the sample and the last ones on the whole part, and keep those that are better there.

    Args:
        last: what the last ones had on the sample.
        is_best: whether the best ones are the last ones.
    """
    progress, events = job.progress, list[Evaluated]()
    progress.whole_loss = None
    if not is_best and progress.best_step is not None:
        weights = weights_of_file(job.model, job.run.weights, job.config.run_id, job.workers)
        with exchanged(job.model, weights):
            events.append(replace(_scored(job, clock, "best", "whole"), of_step=progress.best_step))
    with _averaged(job):
        events.append(_scored(job, clock, _of(job), "whole"))
        losses = [event.loss if math.isfinite(event.loss) else math.inf for event in events]
        better = losses.index(min(losses))
        if events[better] is events[-1] and len(events) > 1:
            save_best(job, instead_of=progress.best_step)
            progress.best_loss = last.loss if math.isfinite(last.loss) else None
            progress.best_step = progress.step
    events[better] = replace(events[better], best=True)
    if math.isfinite(events[better].loss):
        progress.whole_loss = events[better].loss
    for event in events:
        append(job, event)
    return events


def _scored(job: TrainingJob, clock: Clock, of: Scored, part: Scope = "sample") -> Evaluated:
    """What the model holds now, on the sample, or on the whole part where there is none."""
    batches = job.sample if part == "sample" and job.sample is not None else job.validation
    began = time.perf_counter()
    with gathered(job.objective):
        totals = total_loss(job.model, job.workers.shares(batches.whole()), job.device, job.workers.sum)
    seconds = time.perf_counter() - began
    if part == "sample":
        clock.evaluation = seconds
    part = "sample" if batches is job.sample else "whole"
    return Evaluated(
        step=job.progress.step,
        tokens=totals.tokens,
        loss=totals.loss,
        accuracy=totals.accuracy,
        best=False,
        seconds=seconds,
        of=of,
        part=part,
    )


def _compared(job: TrainingJob, event: Evaluated) -> Evaluated:
    """Keep what the model holds now, if its loss is the lowest so far."""
    progress = job.progress
    if not math.isfinite(event.loss) or (progress.best_loss is not None and event.loss >= progress.best_loss):
        return event
    progress.best_loss, progress.best_step = event.loss, progress.step
    save_best(job)
    return replace(event, best=True)


def _of(job: TrainingJob) -> Scored:
    return "moving_average" if job.average else "weights"


def _averaged(job: TrainingJob) -> AbstractContextManager[None]:
    return exchanged(job.model, job.average.tensors) if job.average else nullcontext()


def _saved(job: TrainingJob, meter: Meter, clock: Clock) -> CheckpointSaved:
    began = time.perf_counter()
    job.progress.seconds = clock.seconds()
    meter.keep(job.progress)
    if job.progress.best_step is None:  # not evaluated yet: the run shall load all the same
        with _averaged(job):
            save_best(job)
    folder = save_progress(job)
    meter.pause(time.perf_counter() - began)
    return CheckpointSaved(job.progress.step, str(folder))
