"""The run directory: its files, its checkpoints, and finding it by name.

RUN/recipe.toml  config.json  tokenizer.json  model.safetensors  metrics.jsonl  data.json  scores.json  README.md
RUN/checkpoints/step-000250/{model.safetensors, optimizer.safetensors, state.json}"""

import os
import re
import shlex
import shutil
from collections.abc import Container, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import count
from pathlib import Path

from tfcli.errors import Misnamed, TfcliError, UsageError, shortened
from tfcli.files import Taken, claimed, is_locked, patient_lock
from tfcli.recipe.shipped import shipped_recipes

RUNS = Path("runs")  # where runs are put, and looked for, that nothing else is said of
# The names that `files.replacing` makes, and those of the safetensors library. Others are the user's.
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp|\.tmp[0-9A-Za-z]{6}|\.best-\d+\.tmp")
_CHECKPOINT = re.compile(r"step-([0-9]{6}|[1-9][0-9]{6,15})")


class _File:
    """A file of a run, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, run: "RunDirectory", owner: type) -> Path:
        return run.path / self.name


@dataclass(frozen=True)
class RunDirectory:
    """A folder that holds one run, or will."""

    path: Path

    recipe = _File("recipe.toml")  # the resolved recipe, which alone reproduces the run
    config = _File("config.json")  # the model section and the ids of the token roles
    tokenizer = _File("tokenizer.json")  # in the `tokenizers` format
    weights = _File("model.safetensors")  # the best by validation
    metrics = _File("metrics.jsonl")  # one JSON object a line, as training went
    data = _File("data.json")  # the sources and the prepared dataset's fingerprint
    scores = _File("scores.json")  # what `tfcli run` measured at its end
    readme = _File("README.md")  # the run in words

    def aside(self, step: int) -> Path:
        """Where the best weights, of that step, wait until the counters say that others are in their place."""
        return self.path / f".best-{step}.tmp"

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step is, or will be."""
        return self.path / "checkpoints" / f"step-{step:06d}"

    def checkpoints(self) -> dict[int, Path]:
        """Complete checkpoints by step, oldest first."""
        return {step: folder for step, folder in self.steps().items() if (folder / "state.json").is_file()}

    def steps(self) -> dict[int, Path]:
        """All that has the name of a checkpoint. No kill leaves one that is not complete."""
        named = ((_CHECKPOINT.fullmatch(folder.name), folder) for folder in (self.path / "checkpoints").glob("step-*"))
        return dict(sorted((int(name.group(1)), folder) for name, folder in named if name))

    def prune(self, kept: Container[int], weights_alone: Container[int] = ()) -> None:
        """Remove the checkpoints of all other steps, or all but their weights, and what a kill has left of others."""
        for step, folder in self.checkpoints().items():
            if step in weights_alone:
                (folder / "optimizer.safetensors").unlink(missing_ok=True)
                shutil.rmtree(folder / "optimizer.parts", ignore_errors=True)
            elif step not in kept:
                # Renamed first: a removal that is cut short must not leave half a checkpoint under its name.
                folder.rename(folder.with_name(f".{folder.name}.tmp"))
        self.sweep()

    def sweep(self) -> None:
        """Remove what a kill has left half-written. Only for who holds the run: others may be writing."""
        for left in (self.path / "checkpoints").glob(".step-*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        for left in self.path.glob(".*"):
            if _TEMPORARY.fullmatch(left.name) and left.is_file():
                left.unlink(missing_ok=True)

    def kept(self) -> str:
        """What there is to go on from, in words."""
        steps = self.checkpoints()
        return f"the checkpoint of step {max(steps)} is kept" if steps else "no checkpoint is left"

    def holds_run(self) -> bool:
        """Whether a run was begun here."""
        return os.path.isfile(self.recipe)  # noqa: PTH113 (which fails over a path that cannot be)


@contextmanager
def claimed_run(out: Path | None, name: str, runs: Path = RUNS) -> Iterator[RunDirectory]:
    """Hold a run directory that is to be made at `out`, where none may be, or at the first free `runs/<name>-<n>`."""
    with ExitStack() as stack:
        if out is not None:
            if RunDirectory(out).holds_run():
                raise UsageError(f"The folder {str(out)!r} holds a run already", "choose another --out")
            stack.enter_context(claimed(out, lacks=" and holds no run"))
        numbers = count(1)
        while out is None:
            path = runs / f"{name}-{next(numbers)}"
            with suppress(Taken):
                stack.enter_context(claimed(path, new=True))
                out = path
        yield RunDirectory(out)


@contextmanager
def held(run: RunDirectory) -> Iterator[None]:
    """Hold a run while training into it, by a lock on config.json, which is never written again; else it is refused."""
    try:
        lock = patient_lock(run.config)
    except BlockingIOError:
        problem = f"Another process trains into {run.path}"
        raise UsageError(problem, "wait until it has ended, or choose another --out") from None
    except OSError as error:
        raise TfcliError(f"Cannot write {run.config}: {error.strerror}", "check its permissions") from error
    try:
        yield
    finally:
        lock.release()


def is_held(run: RunDirectory) -> bool:
    """Whether a process trains into a run now: asked with a shared lock, let go of at once."""
    return is_locked(run.config, shared=True)


LAST = "last"  # the run below `runs/` whose metrics were written last
DEEPEST = 3  # levels below the folder in which runs are looked for: runs/a, runs/group/a, runs/group/day/a
_SHOWN = 4  # names in a sentence


def existing_run(path: Path) -> RunDirectory:
    """The run at a path, else of a name. A `UsageError` says what there is, a `Misnamed` what was meant."""
    if (run := _found(path)) is None:
        raise _refusal(path)
    return run


def is_run(path: Path) -> bool:
    """Whether `existing_run` takes it."""
    return _found(path) is not None


def _found(path: Path) -> RunDirectory | None:
    run = RunDirectory(path) if os.path.lexists(path) else _named(path)
    return run if run is not None and run.holds_run() else None


def name_of(run: RunDirectory) -> str:
    """The shortest that `existing_run` takes for this run: below `runs/` what follows it, else its path."""
    place, runs = os.path.abspath(run.path), os.path.abspath(RUNS)  # noqa: PTH100 (resolve would follow links)
    name = os.path.relpath(place, runs)
    return name if place.startswith(runs + os.sep) and name != LAST and not os.path.lexists(name) else str(run.path)


def run_names() -> list[str]:
    """The name of every run below `runs/`, by path."""
    return [name_of(run) for run in sorted(_below(RUNS, DEEPEST), key=lambda run: run.path)]


def newest_first() -> list[RunDirectory]:
    """The runs below `runs/` that have metrics, that whose were written last first."""
    trained = [run for run in _below(RUNS, DEEPEST) if run.metrics.is_file()]
    return sorted(trained, key=lambda run: (run.metrics.stat().st_mtime_ns, str(run.path)), reverse=True)


def find_runs(folder: Path) -> list[RunDirectory]:
    """The runs in `folder`, itself among them, and below it, by path; a `UsageError` where it cannot be read."""
    if not folder.is_dir():
        problem = f"{str(folder)!r} is a file" if folder.exists() else f"There is no folder {str(folder)!r}"
        raise UsageError(problem, "name the folder that your runs are in")
    try:
        list(folder.iterdir())
    except OSError as error:
        raise UsageError(f"Cannot read {str(folder)!r}: {error.strerror}", "check its permissions") from error
    return sorted(_below(folder, DEEPEST), key=lambda run: run.path)


def _below(folder: Path, levels: int) -> Iterator[RunDirectory]:
    """A folder that cannot be read, or is no run and holds none, is passed over; runs are not searched for runs."""
    run = RunDirectory(folder)
    try:
        if run.holds_run():
            yield run
        elif levels and folder.is_dir():
            for inner in folder.iterdir():
                if not inner.is_dir() or inner.name.startswith("."):
                    continue
                # A link to a folder that it lies in leads back.
                if not (inner.is_symlink() and inner.parent.resolve().is_relative_to(inner.resolve())):
                    yield from _below(inner, levels - 1)
    except OSError:
        return


def _named(name: Path) -> RunDirectory | None:
    """The run below `runs/` that is called so."""
    if str(name) == LAST:
        return next(iter(newest_first()), None)
    run = RunDirectory(RUNS / name)
    return run if not name.is_absolute() and ".." not in name.parts and run.holds_run() else None


def _refusal(path: Path) -> UsageError:
    """What is there in place of a run, and what was meant."""
    name = str(path)
    quoted, known = shlex.quote(name), _known_as(path)
    if known is not None:
        return UsageError(f"{name!r} is {known[0]}, not a run", f"{known[1]} `tfcli {known[2].format(quoted)}`")
    folder = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    if os.path.lexists(path) and RunDirectory(folder).holds_run():
        return Misnamed(f"{name!r} is a part of the run {folder}", "name the run", name, str(folder))
    if os.path.isdir(path):  # noqa: PTH112 (the path may be one that cannot be)
        problem = f"The folder {name!r} holds no run: it has no recipe.toml"
    elif os.path.lexists(path):
        problem = f"There is no run {name!r}: it is a file"
    elif name == LAST:
        problem = f"No run in {RUNS} has been trained, so that none is the last"
    elif name in shipped_recipes():
        problem = f"{name!r} is a recipe, not a run"
        called = re.compile(rf"{re.escape(name)}-\d+")
        if (run := next((run for run in newest_first() if called.fullmatch(run.path.name)), None)) is None:
            return UsageError(problem, f"make one by it: `tfcli run {name}`")
        return Misnamed(problem, f"name one that it has made: {name_of(run)}", name, name_of(run))
    else:
        problem = f"There is no run {name if os.sep in name else shortened(name)!r}"
    return UsageError(problem, _what_there_is(path))


def _known_as(path: Path) -> tuple[str, str, str] | None:
    """What a path that holds no run holds, what it is good for, and the command."""
    if os.path.isfile(path / "manifest.json"):  # noqa: PTH113
        return "a prepared dataset", "train on it:", "train --data {}"
    if os.path.isfile(path / "config.json") and not RunDirectory(path).metrics.is_file():  # noqa: PTH113
        return "a checkpoint of another library", "make a run of it:", "import {}"
    if not os.path.isfile(path) or RunDirectory(path.parent).holds_run():  # noqa: PTH113
        return None
    if path.suffix == ".toml":
        return "a recipe", "make a run by it:", "run {}"
    return ("a tokenizer", "cut a text with it:", "tokenize encode {} TEXT") if path.suffix == ".json" else None


def _what_there_is(path: Path) -> str:
    """The nearest names of all that could have been meant, those beside the path among them."""
    wanted = str(path).removeprefix(f"{RUNS}{os.sep}")
    beside = {name_of(run) for run in _below(path.parent, 1)} if path.parent != RUNS else set()
    names = sorted({*run_names(), *beside}, key=lambda name: (-SequenceMatcher(None, wanted, name).ratio(), name))
    if not names:
        return "make one: `tfcli run quickstart`, or `tfcli train FILE`"
    more = len(names) - _SHOWN
    listed = ", ".join(map(shlex.quote, names[:_SHOWN])) + (f" and {more} more: `tfcli runs list`" if more > 0 else "")
    return f"there {'is' if len(names) == 1 else 'are'} {listed}"
