"""Checkpoint and resume checks: a training that is broken off and goes on, beside an unbroken one; a run written
and read again. All of it is in temporary folders: the run is only read."""

import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tfcli.data.dataset import PreparedDataset
from tfcli.data.loader import Batches, build_batches
from tfcli.errors import TfcliError, UsageError
from tfcli.files import read_json, write_text
from tfcli.machine import temporary_folder
from tfcli.models.build import ARCHITECTURES
from tfcli.models.device import choose_device
from tfcli.recipe.loading import to_toml
from tfcli.recipe.recipe import Recipe
from tfcli.recipe.train import TrainSection
from tfcli.runs.checkpoint import open_checkpoint
from tfcli.runs.config import read_header, read_run_data, write_config
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import LoadedRun, load_run, read_run
from tfcli.runs.weights import ABOUT, load_tensors, model_tensors, save_tensors
from tfcli.training.checkpoint import random_states
from tfcli.training.job import TrainingJob, resume, start
from tfcli.training.loop import train
from tfcli.verification.check import Finding, Skipped, VerifiedRun, at_most, proof

_STEPS, _FEWEST = 4, 2  # taken in one go, and in two halves; the fewest of a large model
_SMALL = 1 << 24  # parameters up to which all steps are taken
_WORK = 1 << 30  # parameters times tokens of a step: about a second of one core
_LARGEST = 1 << 28  # parameters up to which a training is begun: two gigabytes of weights, and moments twice that
_DROPOUT = 0.1  # in the training that is resumed: wrong random numbers then change its losses
_WINDOW = 6  # batches looked at before and after the end of an epoch


@proof("resumed training")
def resumed_training(subject: VerifiedRun) -> Finding:
    """Steps after a stop and a resume are the same steps unbroken, to the last bit."""
    _require_trainable(subject)
    with temporary_folder() as folder, subject.dataset() as data, _undisturbed():
        broken, unbroken = (RunDirectory(folder / name) for name in ("broken", "unbroken"))
        recipe = _begun(subject, data, unbroken)
        shutil.copytree(unbroken.path, broken.path)
        steps = _STEPS if subject.run.model.num_parameters() <= _SMALL else _FEWEST
        theirs = _go(unbroken, recipe, data, steps, seed=1)
        _go(broken, recipe, data, steps // 2, seed=2)
        ours = _go(broken, recipe, data, steps // 2, seed=3)
    return _same_bits(ours, theirs)


@proof("data order")
def data_order(subject: VerifiedRun) -> Iterator[Finding]:
    """A resumed training reads what an unbroken one reads, into the next epoch."""
    _require_trainable(subject)
    with subject.dataset() as data:
        recipe = subject.recipe(data)
        batches = build_batches(recipe, data, "train", subject.roles)
        epoch = batches.batches_per_epoch
        first = max(0, epoch - _WINDOW)
        unbroken = _digests(batches, first, epoch + _WINDOW)
        for begin in sorted({first, (first + epoch) // 2, epoch - 1, epoch, epoch + 1}):
            again = _digests(build_batches(recipe, data, "train", subject.roles), begin, epoch + _WINDOW)
            different = sum(ours != theirs for ours, theirs in zip(again, unbroken[begin - first :], strict=True))
            yield at_most(different, 0, "batches", f"where it goes on at batch {begin} of {epoch} an epoch")


def _require_trainable(subject: VerifiedRun) -> None:
    subject.require_head()
    if not subject.run.recipe.is_imported:
        try:
            choose_device(subject.run.recipe.train.device)
        except UsageError as error:
            raise Skipped(f"it was trained on another device: {error.problem}") from error


def _begun(subject: VerifiedRun, data: PreparedDataset, out: RunDirectory) -> Recipe:
    """Make a run that can be gone on with, and what it goes on with."""
    run = subject.run
    if run.model.num_parameters() > _LARGEST:
        raise Skipped(f"a training of {run.model.num_parameters():,} parameters takes too long for a check")
    checkpoints = run.directory.checkpoints()
    if subject.data is None or not checkpoints:
        recipe = subject.recipe(data)
        model = replace(recipe.model, dropout=recipe.model.dropout or _DROPOUT)
        recipe = replace(recipe, model=model, train=_short(run, recipe, 0))
        return start(recipe, data, run.tokenizer, out, initial=read_run(run.directory.path)).recipe
    step, checkpoint = max(checkpoints.items())
    stored = read_header(checkpoint / "optimizer.safetensors").shapes
    if (checkpoint / "model.parts").is_dir() or "random.cpu.1" in stored:
        raise Skipped("it was trained by several processes, and here is one")
    out.path.mkdir()
    for file in (run.directory.config, run.directory.tokenizer, run.directory.metrics):
        shutil.copy(file, out.path)
    shutil.copytree(checkpoint, out.checkpoint(step))
    return replace(run.recipe, train=_short(run, run.recipe, step))


def _short(run: LoadedRun, recipe: Recipe, step: int) -> TrainSection:
    """Steps of bounded work, neither evaluated nor averaged, and not the last of the training."""
    section, affordable = recipe.train, max(16, _WORK // run.model.num_parameters())
    # A shorter context would leave pairs out.
    context = recipe.context if recipe.reads_pairs else min(recipe.context, affordable)
    off: dict[str, Any] = dict.fromkeys(("evaluate_every", "save_every", "average_checkpoints", "patience"), 0)
    off |= {"batch_tokens": None, "compile": "off", "keep_every": None}
    off["grad_accumulation"] = min(section.grad_accumulation, 2)
    rows, steps = max(1, min(section.rows, affordable // context)), max(section.steps, step + _STEPS + 1)
    return replace(section, steps=steps, context=context, batch_size=rows, **off)


def _go(run: RunDirectory, recipe: Recipe, data: PreparedDataset, steps: int, seed: int) -> dict[str, Tensor]:
    """Go on with a run for some steps, as in a process of its own, and return all that is in it at the end."""
    for draw in (random.seed, np.random.seed, torch.manual_seed):
        draw(seed)
    job = resume(run, recipe, data)
    left = iter(range(steps - 1, -1, -1))
    for _ in train(job, lambda: next(left) == 0):  # asked after every step whether it was the last
        pass
    return _state(job)


def _state(job: TrainingJob) -> dict[str, Tensor]:
    counters = ["step", "tokens", "skipped", "lines"]
    counters += [f"pending_{name}" for name in ("targets", "tokens", "loss", "objective")]
    names: dict[Tensor, str] = {parameter: name for name, parameter in job.model.named_parameters()}
    state = {f"weights of {name}": tensor for name, tensor in model_tensors(job.model).items()}
    for optimizer in job.optimizers:
        for parameter, remembered in optimizer.state.items():
            state |= {f"{key} of {names[parameter]}": value for key, value in remembered.items()}
    state |= {f"average of {name}": tensor for name, tensor in job.average.tensors.items()} if job.average else {}
    state |= {f"counter {name}": torch.tensor(float(getattr(job.progress, name) or 0)) for name in counters}
    return {**state, **random_states(job.device, job.workers)}


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A training sets this process's seeds and threads; both are put back."""
    threads, python, numpy = torch.get_num_threads(), random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(python)
        np.random.set_state(numpy)


def _digests(batches: Batches, start: int, end: int) -> list[bytes]:
    found = []
    for batch in islice(batches.training(start), end - start):
        arrays = (batch.input_ids, batch.labels, batch.decoder_input_ids, batch.padding_mask)
        found.append(b"|".join(array.tobytes() for array in arrays if array is not None))
    return found


@proof("saved and loaded")
def saved_and_loaded(subject: VerifiedRun) -> Iterator[Finding]:
    """What is saved and loaded again is the same to the last bit: weights, ties and tokenizer."""
    run = subject.run
    with temporary_folder() as folder, torch.random.fork_rng(range(torch.cuda.device_count())):
        copy = RunDirectory(folder)
        run.tokenizer.save(copy.tokenizer)
        write_config(copy.config, run.config)
        save_tensors(copy.weights, model_tensors(run.model), {"run_id": run.config.run_id})
        write_text(copy.recipe, to_toml(run.recipe))
        again = load_run(copy.path)
        stored, _ = load_tensors(copy.weights)
        names = set(model_tensors(run.model)) ^ set(stored)
        yield _same_bits(again.model.state_dict(), run.model.state_dict())
        yield at_most(len(names), 0, "numbers", f"the file and the model do not both have {min(names, default='')}")
        for one, when in ((run, ""), (again, " after loading")):
            yield at_most(_untied(one), 0, "numbers", f"matrices that are one in the model are two{when}")
        is_other = run.tokenizer.fingerprint != again.tokenizer.fingerprint or run.config != again.config
        yield at_most(is_other, 0, "numbers", "the tokenizer or the config is another one after loading")


@proof("files agree")
def files_agree(subject: VerifiedRun) -> Finding:
    """The files of the run, its checkpoints and its dataset belong together."""
    found = list(_disagreements(subject))
    return at_most(len(found), 0, "files", found[0] if found else "")


def _untied(run: LoadedRun) -> int:
    """Numbers that the model has twice, where one built from its section has them once."""
    section = run.config.model
    with torch.device("meta"):
        wanted = _ties(ARCHITECTURES[section.architecture](section))
    return sum(run.model.get_parameter(name).numel() for names in wanted ^ _ties(run.model) for name in names)


def _ties(model: nn.Module) -> set[frozenset[str]]:
    """The names under which one parameter is found, of those that have several."""
    names = defaultdict(set)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[id(parameter)].add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


def _disagreements(subject: VerifiedRun) -> Iterator[str]:
    run, directory, data = subject.run, subject.run.directory, subject.data
    if data is not None:
        if data.manifest.tokenizer_fingerprint != run.config.tokenizer_fingerprint:
            yield f"{data.path} was made with another tokenizer"
        if read_run_data(directory.data).fingerprint != data.manifest.fingerprint:
            yield f"{data.path} is not the dataset that {directory.data} names"
    for step, folder in (steps := directory.checkpoints()).items():
        names = ["model"]
        try:
            if open_checkpoint(folder).is_whole or step == max(steps):
                names.append("optimizer")
        except TfcliError as error:
            yield error.problem
        for name in names:
            if _run_id(folder, name) != run.config.run_id:
                yield f"{folder / name} is damaged, or of another run"


def _run_id(checkpoint: Path, name: str) -> str | None:
    """The id that a checkpoint's tensors carry, whole or in parts."""
    parts, file = checkpoint / f"{name}.parts", checkpoint / f"{name}.safetensors"
    try:
        return str((read_json(parts / ABOUT) if parts.is_dir() else read_header(file).metadata).get("run_id"))
    except (TfcliError, AttributeError):
        return None


def _same_bits(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Finding:
    """How many numbers differ in any bit: no rounding is forgiven, NaN equals itself, 0 is not −0; all of them do of a
    tensor that one side lacks, or has in another shape or type."""
    apart = {name: _apart(ours.get(name), theirs.get(name)) for name in dict.fromkeys(chain(theirs, ours))}
    first = next((name for name, count in apart.items() if count), "")
    return at_most(sum(apart.values()), 0, "numbers", f"the first are in {first}" if first else "")


def _apart(ours: Tensor | None, theirs: Tensor | None) -> int:
    if ours is None or theirs is None or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return max(one.numel() for one in (ours, theirs) if one is not None)
    if not ours.numel():
        return 0
    bits, others = (tensor.detach().cpu().contiguous().view(-1).view(torch.uint8) for tensor in (ours, theirs))
    return int((bits != others).view(ours.numel(), -1).any(-1).sum())
