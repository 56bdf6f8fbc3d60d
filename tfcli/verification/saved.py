"""File checks: a run that is written and read again, and files that belong together."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from tfcli.errors import TfcliError
from tfcli.files import read_json, write_text
from tfcli.models.build import ARCHITECTURES
from tfcli.processes import temporary_folder
from tfcli.recipe.saving import to_toml
from tfcli.runs.checkpoint import open_checkpoint
from tfcli.runs.config import write_config
from tfcli.runs.data import read_run_data
from tfcli.runs.directory import RunDirectory
from tfcli.runs.header import read_header
from tfcli.runs.load import LoadedRun, load_run
from tfcli.runs.parts import ABOUT
from tfcli.runs.weights import load_tensors, model_tensors, save_tensors
from tfcli.verification.check import Finding, at_most, proof, same_bits
from tfcli.verification.subject import VerifiedRun


@proof("saved and loaded", "What is saved and loaded again is the same to the last bit: weights, ties and tokenizer.")
def saved_and_loaded(subject: VerifiedRun) -> Iterator[Finding]:
    """The run is written to a temporary folder as any run is written, and read as any run is read."""
    run = subject.run
    with temporary_folder() as folder, torch.random.fork_rng(range(torch.cuda.device_count())):
        copy = RunDirectory(folder)
        _write(run, copy)
        again = load_run(copy.path)
        stored, _ = load_tensors(copy.weights)
        names = set(model_tensors(run.model)) ^ set(stored)
        ours, theirs = dict(again.model.state_dict()), dict(run.model.state_dict())
        yield same_bits(ours, theirs)
        yield at_most(len(names), 0, "numbers", f"the file and the model do not both have {min(names, default='')}")
        yield at_most(_untied(run), 0, "numbers", "matrices that are one in the model are two")
        yield at_most(_untied(again), 0, "numbers", "matrices that are one in the model are two after loading")
        is_other = run.tokenizer.fingerprint != again.tokenizer.fingerprint or run.config != again.config
        yield at_most(is_other, 0, "numbers", "the tokenizer or the config is another one after loading")


@proof("files agree", "The files of the run, its checkpoints and its dataset belong together.")
def files_agree(subject: VerifiedRun) -> Finding:
    """Ids, steps and fingerprints; the weights of checkpoints are not read."""
    found = list(_disagreements(subject))
    return at_most(len(found), 0, "files", found[0] if found else "")


def _write(run: LoadedRun, out: RunDirectory) -> None:
    run.tokenizer.save(out.tokenizer)
    write_config(out.config, run.config)
    save_tensors(out.weights, model_tensors(run.model), {"run_id": run.config.run_id})
    write_text(out.recipe, to_toml(run.recipe))


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
    run, directory = subject.run, subject.run.directory
    data = subject.data
    if data is not None:
        if data.manifest.tokenizer_fingerprint != run.config.tokenizer_fingerprint:
            yield f"{data.path} was made with another tokenizer"
        if read_run_data(directory.data).fingerprint != data.manifest.fingerprint:
            yield f"{data.path} is not the dataset that {directory.data} names"
    for folder in directory.checkpoints().values():
        for name in ("model", "optimizer"):
            if _run_id(folder, name) != run.config.run_id:
                yield f"{folder / name} is damaged, or of another run"
        try:
            open_checkpoint(folder)
        except TfcliError as error:
            yield error.problem


def _run_id(checkpoint: Path, name: str) -> str | None:
    """The id that a checkpoint's tensors carry, whole or in parts."""
    parts, file = checkpoint / f"{name}.parts", checkpoint / f"{name}.safetensors"
    try:
        return str((read_json(parts / ABOUT) if parts.is_dir() else read_header(file).metadata).get("run_id"))
    except (TfcliError, AttributeError):
        return None
