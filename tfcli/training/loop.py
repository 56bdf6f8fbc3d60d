"""The training loop, a generator of events: steps, evaluations, checkpoints, early stopping, throughput.

Batches are prefetched, as by a data loader with one worker. The first process writes; what fails in one ends all."""

import math
import shutil
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any, TypeVar

import torch

from tfcli.errors import TfcliError
from tfcli.evaluation.measure import total_loss
from tfcli.files import replacing, write_text
from tfcli.layers.lora import Merged, num_trained
from tfcli.machine import busy_cores
from tfcli.recipe.loading import to_toml
from tfcli.records import runs
from tfcli.records.evaluation import loss_unit
from tfcli.runs.checkpoint import finished_event, stopping_reason, write_state
from tfcli.runs.metrics import append_metrics, flush_metrics, read_metrics
from tfcli.runs.weights import full_tensor, model_tensors, save_tensors
from tfcli.training.averaging import exchanged, mean_of_weights, weights_of_file
from tfcli.training.checkpoint import checkpoints_to_average, prune, save_checkpoint
from tfcli.training.distributed import gathered
from tfcli.training.job import TrainingJob
from tfcli.training.metrics import Meter, UpdateSizes, finite
from tfcli.training.optimizer import optimizer_step
from tfcli.training.schedule import learning_rate, learning_rate_factor


def asking_is_free(device: torch.device) -> bool:
    """Whether numbers can be looked at without waiting for the device; else they are looked at with the reports."""
    return device.type == "cpu"


def _require_finite(job: TrainingJob, meter: Meter) -> None:
    """Asked before anything is reported, scored or saved, so that broken weights never replace good ones."""
    if found := meter.first_not_finite():
        raise _diverged(job, *found)


def _count_left_out(job: TrainingJob, loss: float, norm: float) -> None:
    """Count one more step that was left out; the run ends where train.skip_nonfinite allows no more."""
    allowed, progress = job.recipe.train.skip_nonfinite, job.progress
    if progress.skipped >= allowed:
        before = f", and {allowed} step{' was' if allowed == 1 else 's were'} left out before"
        found = ("gradient norm", norm) if math.isfinite(loss) else ("loss", loss)
        raise _diverged(job, progress.step, *found, before)
    progress.skipped += 1


def _diverged(job: TrainingJob, step: int, what: str, value: float, more: str = "") -> TfcliError:
    rate = job.recipe.train.learning_rate
    return TfcliError(
        f"The {what} became {value} at step {step}{more} ({job.run.kept()})",
        f"lower train.learning_rate (now {rate:g}) in a new run, or from that checkpoint on: "
        f"`tfcli train --resume {job.run.path} --set train.learning_rate={min(rate / 10, 1e-3):g}`",
    )


RECENT = 20  # reports that a loss is held against; half as many must be there

_MOVES, _LEAST_MOVE = 6.0, 0.01


class SpikeWatch:
    """Marks a loss above m + 6 · max(d, 0.01 · |m|), where m is the median of the recent reports' losses, and d the
    median of how far the loss moved between them: 0.95 σ of normal noise. So does a resumed run."""

    def __init__(self, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        """Begin behind what `metrics.jsonl` tells already."""
        losses = (line.get("loss") for line in lines if line.get("event") == "step")
        self._recent = deque((loss for loss in losses if isinstance(loss, int | float)), RECENT)

    def is_spike(self, loss: float) -> bool:
        """Hold the next loss against the recent ones, and take it in; one that is not finite is passed over."""
        if not math.isfinite(loss):
            return False
        recent = tuple(self._recent)
        self._recent.append(loss)
        if len(recent) < RECENT // 2:
            return False
        middle = median(recent)
        move = median(abs(after - before) for before, after in pairwise(recent))
        return loss > middle + _MOVES * max(move, _LEAST_MOVE * abs(middle))


T = TypeVar("T")


def ahead(items: Iterator[T], device: torch.device) -> Iterator[T]:
    """The items, prefetched where the device works by itself; on a CPU the step keeps all cores busy."""
    return items if device.type == "cpu" else prefetched(items)


def prefetched(items: Iterator[T], depth: int = 2) -> Iterator[T]:
    """The same items in the same order, prefetched by a thread: `depth` of them wait, and one more is being made. What
    goes wrong in the thread is raised where the item is asked for. Closing the iterator ends the thread."""
    thread = ThreadPoolExecutor(1, "batches")
    try:
        waiting = deque(thread.submit(next, items) for _ in range(depth + 1))
        with suppress(StopIteration):
            while True:
                item = waiting.popleft().result()
                waiting.append(thread.submit(next, items))
                yield item
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _record_changes(job: TrainingJob) -> Iterator[runs.SettingChanged]:
    """Put what a resume has changed into the metrics, and then into the recipe: each as soon as it is asked for."""
    for change in job.changes:
        append(job, change)
        yield change
    if job.changes:
        _first_writes(job, lambda: flush_metrics(job.run.metrics))
        _first_writes(job, lambda: write_text(job.run.recipe, to_toml(job.recipe)))


def append(job: TrainingJob, event: runs.StepsDone | runs.Evaluated | runs.SettingChanged) -> None:
    """Add a line to metrics.jsonl."""
    _first_writes(job, lambda: append_metrics(job.run.metrics, event))
    job.progress.lines += 1


def save_best(job: TrainingJob, instead_of: int | None = None) -> None:
    """Make what the model holds now what the run is loaded with; the best so far, of step `instead_of`, stay aside."""
    tensors = _merged(job)

    def write() -> None:
        if instead_of is not None:
            with replacing(job.run.aside(instead_of)) as temporary:
                shutil.copyfile(job.run.weights, temporary)
        save_tensors(job.run.weights, tensors, {"run_id": job.config.run_id})

    _first_writes(job, write)


def _merged(job: TrainingJob) -> Merged:
    """The model's weights, whole; all workers ask for them together."""
    whole = {name: full_tensor(tensor.detach()) for name, tensor in model_tensors(job.model).items()}
    return Merged(whole, job.recipe.train.adapter_factor)


def save_counters(job: TrainingJob) -> None:
    """Put into the checkpoint of this step what its evaluation has found."""

    def write() -> None:
        flush_metrics(job.run.metrics)
        write_state(job.run.checkpoint(job.progress.step), job.progress, job.origin)
        job.run.sweep()

    _first_writes(job, write)


def _first_writes(job: TrainingJob, write: Callable[[], None]) -> None:
    with _keeping_the_last(job):
        if job.workers.is_first:
            write()


@contextmanager
def _keeping_the_last(job: TrainingJob) -> Iterator[None]:
    """What cannot be written ends the training of all; the sentence says what there is to go on from."""
    try:
        with job.workers.together():
            yield
    except (TfcliError, OSError) as error:
        problem = error.problem if isinstance(error, TfcliError) else f"Cannot write {error.filename}: {error.strerror}"
        remedy = f"make room there and go on with `tfcli train --resume {job.run.path}`"
        raise TfcliError(f"{problem} ({job.run.kept()})", remedy) from error


def train(job: TrainingJob, should_stop: Callable[[], bool] = lambda: False) -> Iterator[runs.TrainingEvent]:
    """Train to the last step, evaluating, saving and reporting as the recipe says, or until `should_stop` says yes. A
    loss that is not finite, or a file that cannot be written, is a TfcliError; the last good checkpoint is kept."""
    section, progress = job.recipe.train, job.progress
    meter, spikes = Meter(progress, job.device), SpikeWatch(read_metrics(job.run.metrics))
    yield _started(job)
    yield from _record_changes(job)
    batches = ahead(job.training.training(progress.step * section.grad_accumulation), job.device)
    job.model.train()
    reason: runs.Reason | None = stopping_reason(progress, section)
    if progress.unevaluated:
        reason = yield from _ended_step(job, meter, stop=False)
    if reason is None:
        progress.finished, progress.whole_loss = False, None
    while reason is None:
        micro_batches = [next(batches) for _ in range(section.grad_accumulation)]
        reports = progress.step + 1 == section.steps or _due(progress.step + 1, section.log_every)
        sizes = UpdateSizes(job.model) if reports else None
        losses, norm = optimizer_step(
            job.objective,
            job.optimizers,
            micro_batches,
            learning_rate_factor=learning_rate_factor(progress.step + 1, section),
            clip_norm=section.clip_norm,
            only_finite=section.skip_nonfinite > 0,
            workers=job.workers,
            measured=sizes,
        )
        progress.step += 1
        progress.tokens += sum(batch.tokens for batch in micro_batches)
        if section.skip_nonfinite and not bool(torch.isfinite(losses).all() & torch.isfinite(norm)):
            _count_left_out(job, float(losses.sum()), float(norm))
            meter.leave_out(norm, micro_batches)
        else:
            meter.add(progress.step, losses, norm, micro_batches)
            if job.average:
                job.average.update(job.model, progress.updates)
        stop = job.workers.any(should_stop())
        if sizes is not None or asking_is_free(job.device):
            _require_finite(job, meter)
        if sizes is not None:
            yield _reported(job, meter, spikes=spikes, sizes=sizes)
            meter.reset()
        reason = yield from _ended_step(job, meter, stop=stop)
    yield finished_event(job.run, progress, reason)


def _ended_step(job: TrainingJob, meter: Meter, stop: bool) -> Generator[runs.TrainingEvent, None, runs.Reason | None]:
    """What is due behind a step: a checkpoint, then an evaluation, which may die. Returns why training ends here."""
    section, progress = job.recipe.train, job.progress
    last = progress.step == section.steps
    saved, due = progress.unevaluated, progress.unevaluated or last or _due(progress.step, section.evaluate_every)
    is_kept = any(_due(progress.step, every) for every in (section.save_every, section.keep_every or 0))
    if not saved and (last or stop or is_kept):
        _require_finite(job, meter)
        progress.unevaluated = saved = due
        yield _saved(job, meter)
    reason = None
    if due:
        _require_finite(job, meter)
        yield (evaluated := _evaluated(job, meter))
        meter.pause(meter.evaluation)
        reason, is_best = stopping_reason(progress, section), evaluated.best
        progress.finished = reason is not None
        if progress.finished and section.average_checkpoints:
            yield (mean := _evaluated(job, meter, "checkpoints"))
            is_best = is_best and not mean.best
        if progress.finished and job.sample is not None:
            yield from _evaluated_whole(job, meter, evaluated, is_best=is_best)
    progress.unevaluated = False
    if saved:
        progress.seconds = meter.run_seconds()
        save_counters(job)
    elif progress.finished:
        yield _saved(job, meter)
    return reason or ("interrupted" if stop else None)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _started(job: TrainingJob) -> runs.TrainingStarted:
    section = job.recipe.train
    return runs.TrainingStarted(
        run=str(job.run.path),
        architecture=job.recipe.model.architecture,
        parameters=job.model.num_parameters() - (adapters := num_trained(job.model) if section.adapter else 0),
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
        left_out=job.training.left_out,
        lost_lines=job.lost_lines,
        batch_tokens=section.batch_tokens,
        evaluate_tokens=section.evaluate_tokens if job.sample is not None else None,
        without_digest=job.without_digest,
        adapter_parameters=adapters,
        loss_unit=loss_unit(job.recipe.objective),
    )


def _reported(job: TrainingJob, meter: Meter, *, spikes: SpikeWatch, sizes: UpdateSizes) -> runs.StepsDone:
    section, progress = job.recipe.train, job.progress
    (loss, objective), norm, seconds = meter.losses(), float(meter.norm), meter.seconds()
    steps_left = section.steps - progress.step
    evaluations_left: float = 1 + (steps_left // section.evaluate_every if section.evaluate_every else 0)
    if job.sample is not None and section.evaluate_tokens:  # the whole part at the end, twice at most
        evaluations_left += 2 * job.data.validation.tokens / section.evaluate_tokens
    event = runs.StepsDone(
        step=progress.step,
        total_steps=section.steps,
        tokens=progress.tokens,
        loss=loss,
        learning_rate=learning_rate(progress.step, section),
        grad_norm=norm,
        tokens_per_second=meter.steps_tokens / seconds,
        seconds=meter.run_seconds(),
        seconds_left=steps_left * seconds / meter.steps + evaluations_left * meter.evaluation,
        objective=objective if section.label_smoothing else None,
        padding=meter.padding(),
        skipped=progress.skipped,
        spike=spikes.is_spike(loss),
        weight_norms=sizes.norms(),
        update_ratios=sizes.ratios(),
    )
    append(job, event)
    return event


def _evaluated(job: TrainingJob, meter: Meter, of: runs.Scored | None = None) -> runs.Evaluated:
    """Score what `_averaged` puts into the model; what has the lowest loss so far is kept."""
    progress = job.progress
    with _averaged(job, of):
        event = _scored(job, meter, of)
        if math.isfinite(event.loss) and (progress.best_loss is None or event.loss < progress.best_loss):
            progress.best_loss, progress.best_step = event.loss, progress.step
            save_best(job)
            event = replace(event, best=True)
    if of is None:
        progress.stale = 0 if event.best else progress.stale + 1
    append(job, event)
    return event


def _evaluated_whole(job: TrainingJob, meter: Meter, last: runs.Evaluated, *, is_best: bool) -> list[runs.Evaluated]:
    """Score the best weights by the sample and the last ones (`last`) on the whole part, and keep the better ones."""
    progress, events = job.progress, list[runs.Evaluated]()
    if not is_best and progress.best_step is not None:
        with exchanged(job.model, weights_of_file(job.model, job.run.weights, job.config.run_id, job.workers)):
            events.append(replace(_scored(job, meter, "best", "whole"), of_step=progress.best_step))
    with _averaged(job):
        events.append(_scored(job, meter, on="whole"))
        losses = [event.loss if math.isfinite(event.loss) else math.inf for event in events]
        better = losses.index(min(losses))
        if better == 1:
            save_best(job, instead_of=progress.best_step)
            progress.best_loss, progress.best_step = finite(last.loss), progress.step
    progress.whole_loss = finite(events[better].loss)
    events[better] = replace(events[better], best=True)
    for event in events:
        append(job, event)
    return events


def _scored(job: TrainingJob, meter: Meter, of: runs.Scored | None = None, on: runs.Scope = "sample") -> runs.Evaluated:
    """Score what the model holds now, on the sample, or on the whole part where there is none."""
    batches = job.sample if on == "sample" and job.sample is not None else job.validation
    began = time.perf_counter()
    with gathered(job.objective):
        shares, task = job.workers.shares(batches.whole()), job.recipe.train.task
        totals = total_loss(job.model, shares, job.device, job.workers.sum, task)
    seconds = time.perf_counter() - began
    if on == "sample":
        meter.evaluation = seconds
    return runs.Evaluated(
        step=job.progress.step,
        tokens=totals.tokens,
        loss=totals.loss,
        accuracy=totals.accuracy,
        f1=totals.f1,
        best=False,
        seconds=seconds,
        of=of or ("moving_average" if job.average else "weights"),
        part="sample" if batches is job.sample else "whole",
        watched=job.watch(_merged(job)) if job.watch is not None and of is None else None,
    )


def _averaged(job: TrainingJob, of: runs.Scored | None = None) -> AbstractContextManager[None]:
    """The model holds the mean of its weights and those of "checkpoints" before, or else its moving average, if any."""
    if of == "checkpoints":
        others = checkpoints_to_average(job.run, job.progress.step, job.recipe.train)
        return exchanged(job.model, mean_of_weights(job.model, others, job.config.run_id, job.workers))
    return exchanged(job.model, job.average.tensors) if job.average else nullcontext()


def _saved(job: TrainingJob, meter: Meter) -> runs.CheckpointSaved:
    """Write a checkpoint; the older ones go only once it is on the disk, and with it the metrics up to it."""
    began = time.perf_counter()
    meter.keep(job.progress)
    if job.progress.best_step is None:  # not evaluated yet: the run shall load all the same
        with _averaged(job):
            save_best(job)
    _first_writes(job, lambda: flush_metrics(job.run.metrics))
    with _keeping_the_last(job):
        folder = save_checkpoint(
            job.run, job.origin, job.model, job.optimizers, job.progress, average=job.average, workers=job.workers
        )
        if job.workers.is_first:
            prune(job.run, job.recipe.train)
    meter.pause(time.perf_counter() - began)
    return runs.CheckpointSaved(job.progress.step, str(folder))
