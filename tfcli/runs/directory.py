"""The run directory: which file of an experiment is where, and which checkpoints are kept.

RUN/recipe.toml  config.json  tokenizer.json  model.safetensors  metrics.jsonl  data.json  scores.json  README.md
RUN/checkpoints/step-000250/{model.safetensors, optimizer.safetensors, state.json}
"""

import os
import re
import shutil
from collections.abc import Container, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tfcli.errors import TfcliError, UsageError
from tfcli.files import Taken, claimed
from tfcli.locks import is_locked, patient_lock

RUNS = Path("runs")
"""Where runs are put, and looked for, that nothing else is said of."""

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

    def prune(self, kept: Container[int]) -> None:
        """Remove the checkpoints of all steps but those, and what a kill has left of others."""
        for step, folder in self.checkpoints().items():
            if step not in kept:
                # Renamed first: a removal that is cut short must not leave half a checkpoint under its name.
                folder.rename(folder.with_name(f".{folder.name}.tmp"))
        self.sweep()

    def sweep(self) -> None:
        """Remove what a kill has left half-written. Only for who holds the run: others may be writing."""
        for left in (self.path / "checkpoints").glob(".step-*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        for left in self.path.glob(".*"):
            # Ours end with .tmp; those of the safetensors library begin with it.
            if left.is_file() and (left.suffix == ".tmp" or left.name.startswith(".tmp")):
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
    """Hold a run directory that is to be made at `out`, or at `runs/<name>-<n>` with the first n, from 1, that no other
    process has.

    Raises:
        UsageError: something is at `out`, or another process makes it.
    """
    with ExitStack() as stack:
        if out is not None:
            if RunDirectory(out).holds_run():
                raise UsageError(f"The folder {str(out)!r} holds a run already", "choose another --out")
            stack.enter_context(claimed(out, lacks=" and holds no run"))
        for number in count(1) if out is None else ():
            path = runs / f"{name}-{number}"
            with suppress(Taken):
                stack.enter_context(claimed(path, new=True))
                out = path
                break
        assert out is not None
        yield RunDirectory(out)


@contextmanager
def held(run: RunDirectory) -> Iterator[None]:
    """Hold a run while training into it, until the process ends, however it ends: config.json is locked, which is there
    from the first moment and never written again.

    Raises:
        UsageError: another process holds it.
        TfcliError: the run cannot be written to.
    """
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
    """Whether a process trains into a run now. It is asked with a shared lock, let go of at once, which one who is
    about to train waits for."""
    return is_locked(run.config, shared=True)
