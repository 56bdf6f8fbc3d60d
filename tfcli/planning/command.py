"""``tfcli plan``: what to train on a corpus, on this machine, in the time there is."""

import os
import shlex
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfcli.console.options import Json, command
from tfcli.console.settings import MACHINE, Asked, layers_of
from tfcli.console.terminal import Terminal
from tfcli.errors import TfcliError, UsageError
from tfcli.outputs import require_output, write_output

if TYPE_CHECKING:
    from tfcli.planning import Candidate, Measured, Plan
    from tfcli.planning.plan import Compose
    from tfcli.recipe.loading import Settings
    from tfcli.recipe.recipe import Recipe

# What `tfcli train` loads beside what a step needs.
_LOADED = ("tfcli.cli.main", "tfcli.console.reporting", "tfcli.pipeline.training", "rich.live")
LARGE = 20_000_000  # characters: a longer corpus is planned with its first documents only
_TAKEN = ("sources", "vocab_size", "arch", "assignments", "context", "dropout", "precision")


@command
def plan(
    terminal: Terminal,
    minutes: Annotated[float, typer.Option(metavar="M", help="How many minutes the whole job may take.")],
    asked: Annotated[Asked, _TAKEN, MACHINE],
    out: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Write the proposal as a recipe.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Train the proposal; compare its time and memory.")] = False,
    json: Json = False,
) -> None:
    """Find the size, the batch and the steps that fit a corpus and a time.

    It prepares the text and keeps it for the training, times a few real steps
    of each size, and prints the command to type.

    Examples:

      tfcli plan --minutes 20
      tfcli plan 'books/*.txt' --minutes 5 --out books.toml
    """
    from tfcli.planning import FOUND
    from tfcli.planning.view import PlanView
    from tfcli.recipe.loading import build_recipe, to_toml

    if not 0 < minutes < float("inf"):
        raise UsageError(f"--minutes {minutes:g} leaves no time", "give more than 0, as in --minutes 20")
    if out is not None:
        require_output(out, "--out")
    for key in (*FOUND, "epochs", "batch_size"):
        if f"train.{key}" in asked.typed:
            raise UsageError(f"train.{key} is what a plan finds", "leave it out, or train without a plan")
    layers = layers_of(asked)

    def compose(size: "Settings", *chosen: "Settings") -> "Recipe":
        return build_recipe(size, *layers, *chosen)

    result, proposal = _planned(terminal, compose, minutes)
    command_line = shlex.join(["tfcli", "train", *asked.words(), "--size", result.chosen.size, *_written(result)])
    if out is not None:
        write_output(out, "--out", to_toml(proposal))
        command_line = f"tfcli train --recipe {shlex.quote(str(out))}"
    result = replace(result, command=command_line, measured=_measured(terminal, proposal) if check else None)
    terminal.result(result, PlanView, json=json)
    if not json:
        terminal.message(result.command)


def _planned(terminal: Terminal, compose: "Compose", minutes: float) -> "tuple[Plan, Recipe]":
    """Prepare the text, measure the candidates and choose."""
    from tfcli.interop.exporting import exportable
    from tfcli.models.head import require_head
    from tfcli.models.presets import SIZES
    from tfcli.pipeline.datasets import obtain_data
    from tfcli.planning import Plan
    from tfcli.planning.plan import MOST_EPOCHS, candidates, choose, least_minutes, settings_of
    from tfcli.training.job import resolve_for_machine

    plain = compose({})
    require_head(plain.model)
    if plain.train.task is not None:
        raise UsageError("A plan is for a training that predicts tokens", "leave train.task out; its passes are few")
    resolve_for_machine(plain)  # a device that is not there is refused before any work
    began = time.perf_counter()
    first, pairs = _first_documents(plain), plain.model.architecture == "encoder-decoder"
    terminal.note(f"Preparing {'the pairs, which are' if pairs else 'the text, which is'} kept for the training …")
    tokenizer, data = obtain_data(compose({}, first), lambda event: None)
    record, prepared = data.record(), time.perf_counter()
    vocabulary: Settings = {"model": {"vocab_size": plain.model.vocab_size or tokenizer.vocab_size}}
    measured: list[Candidate] = []
    for candidate in candidates(lambda *more: compose(*more, vocabulary), data.path, minutes, tuple(SIZES), _LOADED):
        terminal.note(f"{candidate.size}: {candidate.tokens_per_second:,.0f} tokens a second")
        measured.append(candidate)
    found = choose(measured)
    chosen = next((candidate for candidate in found if candidate.chosen), None)
    if chosen is None:
        these, too_few, what = ("these", "are too few", "pairs") if pairs else ("this", "is too short", "text")
        if (least := least_minutes(found[0])) > minutes:
            problem = f"--minutes {minutes:g} is too short for any training of {these} {what} here"
            raise UsageError(problem, f"the smallest takes --minutes {least:.2g}")
        problem = f"The {what} {too_few} to train on: {record.train.tokens:,} tokens, read {MOST_EPOCHS} times at most"
        raise UsageError(problem, f"give more {what}")
    proposal = compose(SIZES[chosen.size], first, settings_of(chosen)).resolved()
    decided = resolve_for_machine(proposal).train
    return Plan(
        minutes=minutes,
        architecture=proposal.model.architecture,
        exportable=exportable(replace(proposal.model, vocab_size=tokenizer.vocab_size), tokenizer.roles),
        sources=record.sources,
        documents=record.train.documents + record.validation.documents,
        train_tokens=record.train.tokens,
        validation_tokens=record.validation.tokens,
        vocab_size=tokenizer.vocab_size,
        max_documents=first["data"]["max_documents"] if first else None,
        **{name: getattr(decided, name) for name in ("device", "precision", "threads")},
        candidates=tuple(found),
        command="",
        preparing_seconds=prepared - began,
        probing_seconds=time.perf_counter() - prepared,
    ), proposal


def _first_documents(recipe: "Recipe") -> "Settings":
    """The setting that reads the first `LARGE` characters alone, in whole documents, where there is more to read."""
    from tfcli.corpora import texts
    from tfcli.corpora.split import open_split
    from tfcli.pipeline.datasets import kind_of, prepared_folder

    if prepared_folder(recipe.data) is not None or recipe.data.max_documents is not None:
        return {}
    characters = 0
    for number, document in enumerate(open_split(recipe.data, kind_of(recipe)).source.documents(), start=1):
        if characters > LARGE:
            return {"data": {"max_documents": number - 1}}
        characters += sum(len(text) for text in texts(document))
    return {}


def _written(plan: "Plan") -> list[str]:
    """The proposal's settings as they are typed."""
    from tfcli.planning.plan import settings_of

    train = settings_of(plan.chosen)["train"]
    steps, keys = train.pop("steps"), {f"train.{key}": value for key, value in train.items()}
    keys = keys if plan.max_documents is None else {"data.max_documents": plan.max_documents, **keys}
    return ["--steps", str(steps), *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]


def _measured(terminal: Terminal, proposal: "Recipe") -> "Measured":
    """Train the proposal in a process and a folder of its own, which goes afterwards."""
    from tfcli.addresses import revealed
    from tfcli.files import write_text
    from tfcli.machine import child, temporary_folder
    from tfcli.planning import Measured
    from tfcli.recipe.loading import to_toml

    terminal.note("Training it …")
    with temporary_folder() as folder, (folder / "errors.txt").open("w+b") as errors:
        file, run = folder / "plan.toml", folder / "run"
        write_text(file, revealed(to_toml(proposal)))  # in a folder that this user alone reads, and that is removed
        began = time.perf_counter()
        command = "train", "--recipe", str(file), "--out", str(run), "--quiet"
        with child("tfcli", *command, stderr=errors) as process:
            most = None  # Windows does not say it
            if hasattr(os, "wait4"):
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                most = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
            else:
                process.wait()
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()[-300:] or f"exit code {process.returncode}"
            raise TfcliError(f"The proposed training failed ({said})", "train it with `tfcli train`")
        return Measured(time.perf_counter() - began, most)


def show_plan(
    terminal: Terminal, recipe: "Recipe", asked: Asked, *, out: Path | None, json: bool, init: Path | None = None
) -> None:
    """Print the shapes, parameters, operations and memory of a training, decided for this machine, with --verbose its
    recipe, and what of a preset is not its paper's. The weights and the tokenizer are those of `init`."""
    from tfcli.data.dataset import PreparedDataset
    from tfcli.models.presets import APART
    from tfcli.pipeline.datasets import prepared_folder
    from tfcli.pipeline.training import require_trainable
    from tfcli.planning.plan import outline
    from tfcli.planning.view import OutlineView
    from tfcli.recipe.loading import to_toml
    from tfcli.recipe.recipe import SPAN_LABELS
    from tfcli.training.job import resolve_for_machine, with_batches

    tokenizer = require_trainable(recipe, out, init)
    recipe = recipe.resolved()
    if tokenizer is not None and (prepared := prepared_folder(recipe.data)) is not None:
        recipe = replace(recipe, train=with_batches(recipe, PreparedDataset.open(prepared), tokenizer.roles))
    # A tokenizer that is yet to be trained may come out smaller than asked for; this is the most it can be.
    ids = recipe.tokenizer.vocab_size if tokenizer is None else tokenizer.vocab_size
    wanted = max(recipe.model.vocab_size or ids, ids if init is not None else 0)  # a longer vocabulary: more rows
    labels = recipe.model.labels or (SPAN_LABELS if recipe.train.task else None)  # two of them stand for any number
    decided = resolve_for_machine(replace(recipe, model=replace(recipe.model, vocab_size=wanted, labels=labels)))
    at_most = tokenizer is None and recipe.model.vocab_size is None
    result = outline(decided, vocab_size_is_most=at_most, roles=tokenizer.roles if tokenizer else None)
    preset, size = asked.given.get("preset", ""), asked.given.get("size")
    if (apart := APART.get(preset, ())) and size:
        apart = (f"--size {size} has a shape, steps, batch and learning rate of its own", *apart)
    if json:
        terminal.json({**asdict(result), "apart": apart, "recipe": asdict(recipe)})
        return
    terminal.detail(to_toml(recipe))
    terminal.show(OutlineView(result))
    for one in apart:
        terminal.note(f"{preset}, apart from the paper: {one}.")
