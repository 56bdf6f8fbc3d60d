"""Training from a recipe: begin a run, continue the one that is there, or refuse."""

import json
import math
import shlex
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfcli.corpora.open import DEFAULT, PREFIX
from tfcli.corpora.split import open_split
from tfcli.errors import BrokenInputError, Remark, TfcliError, UsageError, shortened
from tfcli.files import write_text
from tfcli.interop.exporting import exportable
from tfcli.models.build import uninitialized_model
from tfcli.models.head import require_head
from tfcli.pipeline import datasets
from tfcli.pipeline.datasets import Report
from tfcli.recipe import loading
from tfcli.recipe.loading import Change, Settings
from tfcli.recipe.recipe import OriginSection, Recipe
from tfcli.recipe.train import TrainSection
from tfcli.records.runs import Reason, SettingChanged, StageStarted, TrainingFinished
from tfcli.runs import checkpoint as checkpoints
from tfcli.runs.card import run_card
from tfcli.runs.checkpoint import Checkpoint, Progress
from tfcli.runs.config import read_config, read_run_data
from tfcli.runs.directory import RunDirectory, claimed_run, existing_run, held, is_held, newest_first
from tfcli.runs.load import LoadedRun, StoredRun, load_run_tokenizer, read_run
from tfcli.runs.metrics import read_metrics
from tfcli.tokenization.tokenizer import Tokenizer, load_tokenizer
from tfcli.training import job as jobs
from tfcli.training.checkpoint import branch
from tfcli.training.distributed import SINGLE_PROCESS, Workers, require_work_for_all
from tfcli.training.loop import train
from tfcli.training.schedule import learning_rate

ShouldStop = Callable[[], bool]
_OF_THE_RATE = ("steps", "learning_rate", "schedule", "final_learning_rate", "schedule_steps")
"""What of [train] the learning rate depends on, of what a resume may change."""
_FOREIGN = "one of the two is not this run's own: restore it"


def train_recipe(
    recipe: Recipe,
    out: Path | None,
    report: Report,
    should_stop: ShouldStop,
    init: Path | None = None,
    workers: Workers = SINGLE_PROCESS,
) -> TrainingFinished:
    """Train a recipe into `out`, or into `runs/<name>-<n>`, continuing a folder that holds a run of the same recipe. Of
    several workers the first one begins the run, and then all go on with it from its folder. Refused are a folder that
    holds a run of another recipe (named is the first setting that differs) or something else, or that another process
    trains into; and several workers that are to find a name for it."""
    recipe = _complete(recipe, init)
    if workers.size > 1:
        if out is None:
            raise UsageError("Several processes cannot choose a name for one run", "name it: --out RUN")
        workers.first_does(lambda: begin_run(recipe, out, report, workers.size))
        return resume_run(out, report, should_stop, workers=workers)
    if out is not None and _holds_same_run(out, recipe):
        return resume_run(out, report, should_stop)
    with ExitStack() as stack:
        with claimed_run(out, recipe.name) as run:
            job = _begun(recipe, run, report)
            stack.enter_context(held(run))
        return _drive(job, report, should_stop)


def begin_run(recipe: Recipe, out: Path | None, report: Report, processes: int, init: Path | None = None) -> Path:
    """Make all that a training by several processes needs, where it is not there yet: tokenizer, data and the run,
    whose folder is returned. Refuses what `train_recipe` does, and more processes than a batch has rows."""
    recipe = _complete(recipe, init)
    require_work_for_all(recipe.train, processes)
    if out is not None and _holds_same_run(out, recipe):
        return out
    with claimed_run(out, recipe.name) as run:
        _begun(recipe, run, report, processes)
    return run.path


def _complete(recipe: Recipe, init: Path | None) -> Recipe:
    """The recipe with all that is decided before the text is read."""
    if init is not None:
        recipe = replace(recipe, train=replace(recipe.train, init=str(init)))
    elif recipe.is_imported:
        problem = f"The recipe is that of a run imported from {recipe.origin.source}, and says nothing of training"
        raise UsageError(problem, "begin with its weights: tfcli train --init RUN --data SOURCE")
    if recipe.model.labels and recipe.train.task is None:
        raise UsageError("model.labels is for a task head, and there is none", "set train.task, or leave it out")
    if recipe.train.task is None:
        require_head(recipe.model)
    elif not recipe.data.names and recipe.train.task not in DEFAULT:
        remedy = "name a SOURCE with contexts, questions and answers"
        raise UsageError(f"There is no built-in text for train.task = {recipe.train.task!r}", remedy)
    recipe = replace(datasets.with_absolute_paths(recipe.resolved()), origin=OriginSection())
    # A tokenizer that extends the run's, where one is named, decides how many rows the model has.
    is_open = recipe.tokenizer.path is None and datasets.prepared_folder(recipe.data) is None
    return recipe if is_open else _with_initial(recipe)[0]


def require_trainable(recipe: Recipe, out: Path | None, init: Path | None) -> Tokenizer | None:
    """Refuse whatever `train_recipe` refuses before it makes a model; return the tokenizer, where it need not be
    trained. Pairs in files are read to their end, of a text only its beginning, and the hub is not asked."""
    recipe = _complete(recipe, init)
    if out is not None and not _holds_same_run(out, recipe):
        with claimed_run(out, recipe.name):
            pass
    recipe, initial, extended = _with_initial(recipe)
    if (prepared := datasets.prepared_data(recipe)) is not None:
        return prepared[0]
    if not any(name.startswith("hf:") for name in recipe.data.names):
        split = open_split(recipe.data, datasets.kind_of(recipe))
        if datasets.kind_of(recipe) == "pairs" and not any(name.startswith(PREFIX) for name in split.source.names):
            for _ in split.parts():  # one file may be longer than the other
                pass
    if initial is not None:
        return extended or initial.tokenizer
    return None if recipe.tokenizer.path is None else load_tokenizer(Path(recipe.tokenizer.path))


def _with_initial(recipe: Recipe) -> tuple[Recipe, StoredRun | None, Tokenizer | None]:
    """The run whose weights are the beginning, the recipe with its tokenizer, and the one that extends it where the
    recipe, or the dataset that it names, has such a one."""
    if recipe.train.init is None:
        if recipe.train.adapter:
            problem = f"train.adapter = {recipe.train.adapter!r} changes a model that is there, and none is named"
            raise UsageError(problem, "name its run: --init RUN")
        return recipe, None, None
    initial, named = read_run(recipe.train.init), recipe.tokenizer.path or datasets.prepared_folder(recipe.data)
    given = None if named is None else load_tokenizer(Path(named))
    if recipe.train.adapter:
        jobs.require_adaptable(recipe.train, initial)
    model, rows, own = recipe.model, initial.config.model.vocab_size or 0, initial.tokenizer
    if given is None or not given.extends(own):
        if recipe.tokenizer.path is not None and given is not None and given.fingerprint != own.fingerprint:
            problem = f"{named} is not the tokenizer of the run {initial.directory.path}, nor extends it"
            raise UsageError(problem, "leave tokenizer.path out, or make one with 'tfcli tokenize train --from RUN'")
        jobs.require_same_model(model, initial, recipe.train.task)
        path = str(initial.directory.tokenizer)
        return replace(recipe, tokenizer=replace(recipe.tokenizer, path=path)), initial, None
    if recipe.train.adapter or recipe.train.task or initial.config.model.labels:
        problem = f"{named} has tokens that {initial.directory.path} lacks, and only language modelling teaches them"
        raise UsageError(problem, "begin with a run that predicts tokens, without train.adapter and train.task")
    needed = max(rows, given.vocab_size)
    if (model.vocab_size or needed) < needed and model.vocab_size != rows:
        problem = f"model.vocab_size = {model.vocab_size}, and the run and the tokenizer that extends its need {needed}"
        raise UsageError(problem, "leave model.vocab_size out")
    jobs.require_same_model(replace(model, vocab_size=None), initial, None)
    wider = replace(model, vocab_size=max(needed, model.vocab_size or 0))
    extended = given.with_roles(initial.config.roles).of_model(wider.vocab_size or 0)
    recipe = replace(recipe, model=wider, tokenizer=replace(recipe.tokenizer, path=str(named)))
    return recipe, initial, extended


def earlier_run(recipe: Recipe) -> tuple[RunDirectory, Reason | None] | None:
    """The newest run below `runs/` that this recipe began, on the same text, and why it ended, if it did. A text from
    standard input can be compared with none. A run that another process trains into now is refused."""
    recipe = _complete(recipe, None)
    if "-" in recipe.data.names:
        return None
    for run in newest_first():
        try:
            if loading.recorded_settings(run.recipe).get("name") != recipe.name:
                continue
            _require_same_recipe(recipe, run)
            checkpoint = checkpoints.last_checkpoint(run)
        except TfcliError:  # it is of another recipe, or cannot be read
            continue
        if checkpoint is None:
            continue
        ended = checkpoints.finished_reason(checkpoint.progress, recipe.train)
        if ended is None and is_held(run):
            problem = f"Another process trains {run.path} by this recipe now"
            raise UsageError(problem, "wait until it has ended, or add --again")
        return run, ended
    return None


def _begun(recipe: Recipe, run: RunDirectory, report: Report, processes: int = 1) -> jobs.TrainingJob:
    recipe, initial, extended = _with_initial(recipe)
    tokenizer, data = datasets.obtain_data(recipe, report, extended)
    if processes == 1:
        report(StageStarted("training", str(run.path)))
    job = jobs.start(recipe, data, extended or tokenizer, run, initial=initial, processes=processes)
    if job.extension is not None:
        report(job.extension)
    return job


def resume_run(
    path: Path, report: Report, should_stop: ShouldStop, new: Settings | None = None, workers: Workers = SINGLE_PROCESS
) -> TrainingFinished:
    """Go on with an interrupted run; of a finished one, say so and do nothing. `new` settings hold from here on;
    with more steps, a finished run goes on too, at its last learning rate unless train.schedule is named as well.
    Refused are a setting that may not change or has no effect, a recipe that was edited, a run that another process
    trains into, and files that are damaged or another run's."""
    run, given = existing_run(path), new or {}
    recorded, recipe = workers.first_then_all(lambda: _changed(run, given, report))
    checkpoint = jobs.require_checkpoint(run)
    progress, edits = checkpoint.progress, _require_same_run(run, recorded, checkpoint, given)
    trained_for = {edit.key: edit.before for edit in edits}.get("train.steps", recorded.train.steps)
    before = replace(recorded.train, steps=trained_for)
    if given:
        recipe = replace(recipe, train=_scheduled(recipe.train, before, progress, given.get("train", {})))
        recipe = _decided_again(recipe, recorded, given)
    changes = loading.changes_between(recorded, recipe)
    changes += [edit for edit in edits if edit.key not in {change.key for change in changes}]
    if changes:
        _require_effect(progress, recipe)
    elif (reason := checkpoints.finished_reason(progress, recipe.train)) is not None:
        report(StageStarted("training", str(path), reused=True))
        event = checkpoints.finished_event(run, progress, reason)
        if not run.readme.is_file() and workers.is_first:  # a kill came between the last checkpoint and the card
            _write_card(run, recipe, event)
        return event
    with ExitStack() as stack:
        workers.first_does(lambda: stack.enter_context(held(run)))
        data = workers.first_then_all(lambda: datasets.dataset_of_run(run, recipe, report))
        report(StageStarted("training", str(path)))
        with workers.together():
            job = jobs.resume(run, recipe, data, workers)
        job.changes = tuple(_events_of(changes, job.progress.step, before, recipe.train))
        if changes and job.best_is_later:  # with other settings the run does not come back to that step
            job.progress.best_loss, job.progress.best_step = None, None
        return _drive(job, report, should_stop)


def branch_run(path: Path, step: int, out: Path | None, settings: Settings) -> Path:
    """Make a new run of what a run was at one of its checkpoints, to be gone on with, and return its folder; the old
    run is left alone. The settings that the new one is to change are only looked at. Refused are a step without a
    checkpoint, an `out` that is taken, and what `resume_run` refuses."""
    source = existing_run(path)
    recorded, recipe = _changed(source, settings, lambda event: None)
    folders = source.checkpoints()
    if step not in folders:
        kept = ", ".join(map(str, folders)) or "none"
        raise UsageError(f"The run {path} has no checkpoint of step {step}", f"it has: {kept}")
    checkpoint = checkpoints.open_checkpoint(folders[step])
    if not checkpoint.is_whole:
        problem = f"The checkpoint of step {step} holds weights alone (train.keep_every): no training goes on from it"
        raise UsageError(problem, f"go on from step {max(folders)}, or keep more with train.keep_checkpoints")
    _require_same_run(source, recorded, checkpoint, settings)
    if checkpoint.origin is not None:  # what was changed behind it was another way to go on
        own = {**loading.recorded_settings(source.recipe), "train": checkpoint.origin.recipe["train"]}
        recorded, recipe = loading.build_recipe(own), loading.build_recipe(own, settings)
    _require_effect(checkpoint.progress, recipe)
    datasets.require_addresses(source, recorded)
    with claimed_run(out, recorded.name) as run:
        branch(source, recorded, checkpoint, run, asked=settings)
    return run.path


def _changed(run: RunDirectory, settings: Settings, report: Report) -> tuple[Recipe, Recipe]:
    """The recipe of a run that was trained here, and the same with settings changed; epochs are counted in steps."""
    recorded, recipe = loading.changed_recipe(run.recipe, settings)
    if recipe.is_imported:
        problem = f"The run {run.path} was imported, and there is no training to go on with"
        raise UsageError(problem, "begin one with --init")
    return recorded, _in_steps(recipe, run, recorded, report)


def _in_steps(recipe: Recipe, run: RunDirectory, recorded: Recipe, report: Report) -> Recipe:
    """Epochs, where the recipe has them, are those of the run's own text, counted in steps."""
    if recipe.train.epochs is None:
        return recipe
    data, roles = datasets.dataset_of_run(run, recorded, report), read_config(run.config).roles
    return replace(recipe, train=jobs.with_steps(recipe, data, roles))


def _scheduled(train: TrainSection, before: TrainSection, progress: Progress, given: Settings) -> TrainSection:
    """Return the settings with the schedule that more steps of a run have.

    More steps of a finished run are taken at its last learning rate, unless a schedule is asked for. If that keeps a
    new learning rate from being reached, a `Remark` says so.

    Raises:
        UsageError: The last learning rate is 0, so more steps would change nothing.
    """
    if "schedule" in given and "schedule_steps" not in given:
        return replace(train, schedule_steps=None)
    at_end = progress.finished or progress.step >= before.steps
    is_longer = train.steps > before.steps
    if at_end and is_longer and "schedule_steps" not in given:
        train = replace(train, schedule_steps=before.schedule_steps or before.steps)
    rate = learning_rate(progress.step + 1, train)
    if at_end and is_longer and rate == 0:
        problem = f"The schedule of this run ended at a learning rate of 0 after step {progress.step}, so more steps"
        remedy = f"to stretch the schedule over all steps: --set train.schedule={train.schedule}"
        raise UsageError(f"{problem} would learn nothing", remedy)
    has_ended = progress.step >= (train.schedule_steps or math.inf)
    if "learning_rate" in given and has_ended and rate < train.learning_rate:
        stays = f"The schedule has ended, so the learning rate stays at {rate / train.learning_rate:.2g} of "
        remedy = f"train.learning_rate = {train.learning_rate:g}; --set train.schedule=constant takes all of it."
        warnings.warn(stays + remedy, Remark, stacklevel=2)
    return train


def _events_of(changes: list[Change], step: int, before: TrainSection, after: TrainSection) -> list[SettingChanged]:
    """The last change that bears on the learning rate says what becomes of it."""
    events = [SettingChanged(step, *change) for change in changes]
    of_rate = [number for number, change in enumerate(changes) if change.key.removeprefix("train.") in _OF_THE_RATE]
    for number in of_rate[-1:]:
        rate = learning_rate(step, before) if step else 0.0
        events[number] = replace(events[number], rate_before=rate, rate_after=learning_rate(step + 1, after))
    return events


def _require_same_run(run: RunDirectory, recorded: Recipe, checkpoint: Checkpoint, settings: Settings) -> list[Change]:
    """Refuse, before anything is written, to go on with what is not provably the run that the checkpoint is of. Return
    those edits of its recipe that the command line asks for as well, and that may be."""
    config, data, lines = read_config(run.config), read_run_data(run.data), read_metrics(run.metrics)
    if recorded.model != config.model:
        key, ours, theirs = loading.changes_between(recorded, replace(recorded, model=config.model))[0]
        problem = f"{run.recipe} and {run.config} describe different models: {key} is"
        raise UsageError(f"{problem} {_shown(ours)} and {_shown(theirs)}", "restore the run's own files")
    if (origin := checkpoint.origin) is None:
        if (steps := recorded.train.steps) < checkpoint.step:
            problem = f"{checkpoint.folder} is of step {checkpoint.step}, and {run.recipe} has train.steps = {steps}"
            raise UsageError(problem, _FOREIGN)
        return []
    roles = json.loads(json.dumps(asdict(config.roles)))
    for path, found, wanted in (
        (run.config, config.run_id, origin.run_id),
        (run.config, config.tokenizer_fingerprint, origin.tokenizer),
        (run.config, {name: roles.get(name) for name in origin.roles}, origin.roles),
        (run.data, data.fingerprint, origin.data),
    ):
        if found != wanted:
            ours, theirs = shortened(repr(found)), shortened(repr(wanted))
            raise BrokenInputError(f"{path} has {ours}, and {checkpoint.folder} belongs to {theirs}", _FOREIGN)
    # A change that was asked for is a line of the metrics before it is in the recipe, and then in the next checkpoint.
    logged = [(line.get("key"), line.get("to")) for line in lines if line["step"] >= checkpoint.step]
    edits = loading.edits_since(origin.recipe, recorded)
    edits = [edit for edit in edits if not loading.may_change(edit.key) or (edit.key, edit.after) not in logged]
    for edit in edits:
        section, _, name = edit.key.partition(".")
        if edit.key in ("data.source", "data.validation"):  # the same text at another place is the same text
            datasets.require_same_text(run, recorded)
        elif not loading.may_change(edit.key) or name not in settings.get(section, {}):
            before, after = _shown(edit.before), _shown(edit.after)
            problem = f"{run.recipe} was edited: {edit.key} is {after}, and the run was trained with {before}"
            asked = f"and ask for it: --set {edit.key}={edit.after}"
            other = asked if loading.may_change(edit.key) else "or begin a new run with --init"
            raise UsageError(problem, f"put it back to {before}, {other}")
    return [edit for edit in edits if loading.may_change(edit.key)]


def goes_on(path: Path, settings: Settings, processes: int) -> bool:
    """Whether there is anything left for several processes to train. More of them than a batch has rows are refused."""
    run = existing_run(path)
    checkpoint, (_, recipe) = checkpoints.last_checkpoint(run), loading.changed_recipe(run.recipe, settings)
    require_work_for_all(recipe.train, processes)
    return bool(settings) or not checkpoint or checkpoints.finished_reason(checkpoint.progress, recipe.train) is None


def prepare_text_of_run(path: Path, settings: Settings, report: Report) -> None:
    """Make the dataset of a run again, unless it is in the cache, before several processes train.

    This process alone knows the secret of an address that the user has typed.
    """
    run = existing_run(path)
    _, recipe = _changed(run, settings, report)
    datasets.dataset_of_run(run, recipe, report)


def _decided_again(recipe: Recipe, recorded: Recipe, settings: Settings) -> Recipe:
    """What changed settings leave to the machine. On another device, the old one's paths are not recorded wishes."""
    train, given = recipe.train, settings.get("train", {})
    if train.device != recorded.train.device:
        train = replace(train, attention=given.get("attention", "auto"), compile=given.get("compile", "auto"))
    return jobs.resolve_for_machine(replace(recipe, train=train))


def _require_effect(progress: Progress, recipe: Recipe) -> None:
    if progress.step > recipe.train.steps:
        problem = f"train.steps = {recipe.train.steps} is less than the {progress.step} steps that are done"
        raise UsageError(problem, "name a larger number")
    if checkpoints.stopping_reason(progress, recipe.train) is not None:
        problem = f"The run is finished at step {progress.step}, and there is nothing left to train"
        raise UsageError(problem, "raise train.steps, or train.patience where it stopped early, to go on")


def _require_same_recipe(recipe: Recipe, run: RunDirectory) -> None:
    recorded = loading.load_recorded(run.recipe)
    if recorded.is_imported:
        raise UsageError(f"{run.path} holds a run imported from {recorded.origin.source}", "choose another --out")
    if recipe.train.epochs is not None:  # with the run's own batches: where others are asked for, they are named
        counted = replace(recorded, train=replace(recorded.train, epochs=recipe.train.epochs))
        steps = _in_steps(counted, run, recorded, lambda event: None).train.steps
        recipe = replace(recipe, train=replace(recipe.train, steps=steps, epochs=None))
    if (difference := loading.first_difference(recipe, recorded)) is not None:
        key, wanted, found = difference
        steps, other_way = recipe.train.steps, "the same settings"
        longer = replace(recorded, train=replace(recorded.train, steps=steps))
        if steps >= recorded.train.steps and loading.first_difference(recipe, longer) is None:
            other_way = f"train it longer: tfcli train --resume {shlex.quote(str(run.path))} --steps {steps}"
        problem = f"{run.path} holds a run with {key} = {_shown(found)}, and {_shown(wanted)} is asked for"
        raise UsageError(problem, f"choose another --out, or {other_way}")
    datasets.require_same_text(run, recipe)


def _holds_same_run(out: Path, recipe: Recipe) -> bool:
    run = RunDirectory(out)
    if run.holds_run():
        _require_same_recipe(recipe, run)
    return run.holds_run()


def _drive(job: jobs.TrainingJob, report: Report, should_stop: ShouldStop) -> TrainingFinished:
    job.watch = _watcher(job) if job.recipe.train.watch is not None else None
    for event in train(job, should_stop):
        report(event)
    assert isinstance(event, TrainingFinished)
    if job.workers.is_first:
        _write_card(job.run, job.recipe, event)
    return event


def _watcher(job: jobs.TrainingJob) -> Callable[[Mapping[str, Tensor]], dict[str, float]]:
    """Measure on a model of its own, so that nothing of the training moves."""
    from tfcli.inspection.heads.statistics import watched  # a training that watches nothing does not wait for it

    model, tokenizer = uninitialized_model(job.config.model).eval(), load_run_tokenizer(job.run, job.config)
    run = LoadedRun(job.run, job.recipe, job.config, tokenizer, model, device=torch.device("cpu"))

    @torch.no_grad()
    def measure(weights: Mapping[str, Tensor]) -> dict[str, float]:
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
        return watched(run)

    return measure


def _write_card(run: RunDirectory, recipe: Recipe, event: TrainingFinished) -> None:
    tokenizer = load_tokenizer(run.path)
    names = tokenizer.labels([] if tokenizer.roles.mask is None else [tokenizer.roles.mask])
    write_text(run.readme, run_card(recipe, event, exportable(recipe.model, tokenizer.roles), *names))


def _shown(value: Any) -> str:
    return "the default" if value is None else shortened(repr(value))
