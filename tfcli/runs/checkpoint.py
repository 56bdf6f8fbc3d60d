"""A checkpoint's ``state.json``: the counters of a training, and what they belong to. The one way to open a checkpoint.

What it belongs to — the run, its tokenizer and dataset, the ids of the special tokens, the settings it was trained by —
is under a digest. Checkpoints of before there was one are read without.
"""

import functools
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import digest, read_json, write_json
from tfcli.runs.directory import RunDirectory

FORMAT_VERSION = 4
WITHOUT_DIGEST = 3
"""The format of before: the counters alone."""

STATE = "state.json"

Count = Annotated[int, Ge(0), Le(1 << 53)]


@dataclass
class Progress:
    """Counters of a training. `stale`: evaluations since the best one. `seconds`: of training and evaluation.
    `skipped`: steps left out, whose numbers were not finite. `lines`: those of metrics.jsonl so far. `pending_*`: what
    is summed up for the next report, so that a resumed run reports what the unbroken one does."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic, never changed)

    step: Count = 0
    tokens: Count = 0
    seconds: Annotated[float, Ge(0)] = 0.0
    best_loss: float | None = None
    best_step: Count | None = None
    stale: Count = 0
    skipped: Count = 0
    lines: Count = 0
    pending_loss: float = 0.0
    pending_targets: Count = 0
    pending_tokens: Count = 0
    pending_places: Count = 0
    finished: bool = False

    @property
    def updates(self) -> int:
        """Of the weights: steps that were not left out."""
        return self.step - self.skipped


@dataclass(frozen=True)
class Origin:
    """What a checkpoint belongs to: the run's id, the fingerprints of its tokenizer and its dataset, the ids of the
    token roles, and the sections of its recipe that decide what is computed."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic, never changed)

    run_id: str
    tokenizer: str
    data: str
    roles: dict[str, Any]
    recipe: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was opened. `origin` is None where it was written before checkpoints carried one."""

    folder: Path
    progress: Progress
    origin: Origin | None

    @property
    def step(self) -> int:
        """The step it was written after."""
        return self.progress.step


def write_state(folder: Path, progress: Progress, origin: Origin) -> None:
    """Write `state.json`."""
    belongs_to = asdict(origin)
    signed = {"belongs_to": belongs_to, "digest": digest(progress.step, belongs_to)}
    write_json(folder / STATE, {"format_version": FORMAT_VERSION, **asdict(progress), **signed})


def open_checkpoint(folder: Path) -> Checkpoint:
    """Read and check a checkpoint's `state.json`; none of its tensors.

    Raises:
        UsageError: it is not there.
        BrokenInputError: it is damaged, was edited, is of another step than its folder's, or of a format version that
            this tfcli does not read.
    """
    path = folder / STATE
    values = read_json(path)
    version = values.pop("format_version", None) if isinstance(values, dict) else None
    if version not in (FORMAT_VERSION, WITHOUT_DIGEST):
        raise BrokenInputError(f"{folder} has a format this tfcli does not read", "resume with the tfcli that wrote it")
    belongs_to, signature = values.pop("belongs_to", None), values.pop("digest", None)
    progress = _validated(Progress, values, path)
    if folder.name != RunDirectory(folder).checkpoint(progress.step).name:
        raise _damaged(path, f"it is of step {progress.step}")
    _require_consistent(progress, path)
    if version == WITHOUT_DIGEST:
        return Checkpoint(folder, progress, None)
    if signature != digest(progress.step, belongs_to):
        raise _damaged(path, "its digest is not that of what it says it belongs to")
    return Checkpoint(folder, progress, _validated(Origin, belongs_to, path))


def last_checkpoint(run: RunDirectory) -> Checkpoint | None:
    """The checkpoint that a run goes on from; None where it has none.

    Raises:
        BrokenInputError: it is damaged; says how to go on from an older one, where there is one.
    """
    steps = run.checkpoints()
    if not steps:
        return None
    for step, folder in run.broken_checkpoints().items():
        if step > max(steps):
            raise BrokenInputError(
                f"{folder} has no {STATE}",
                f"restore it from a copy of the run, or remove {folder} to go on from step {max(steps)}",
            )
    with or_an_older_one(run):
        return open_checkpoint(steps[max(steps)])


@contextmanager
def or_an_older_one(run: RunDirectory) -> Iterator[None]:
    """What is wrong inside the block is wrong with a run's last checkpoint: the remedy names what there is instead."""
    try:
        yield
    except (BrokenInputError, UsageError) as error:
        *older, last = run.checkpoints().items()
        remedy = "restore it from a copy of the run, or begin a new one from the run's weights with --init"
        for step, folder in older:
            if _opens(folder):
                remedy = f"restore it from a copy of the run, or remove {last[1]} to go on from step {step}"
        raise type(error)(error.problem, remedy) from error


def _opens(folder: Path) -> bool:
    try:
        open_checkpoint(folder)
    except TfcliError:
        return False
    return True


@functools.cache  # building one takes longer than all else that is done with it
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _validated(kind: type, values: Any, path: Path) -> Any:
    """As this dataclass, to the letter: no text is taken for a number."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its beginning"
        raise _damaged(path, f"{where}: {first['msg']}") from error
    except (RecursionError, ValueError) as error:
        raise _damaged(path, "it is nested too deeply, or a number is too long") from error


def _require_consistent(progress: Progress, path: Path) -> None:
    """Refuse counters that no training has together."""
    if not (math.isfinite(progress.seconds) and math.isfinite(progress.pending_loss)):
        raise _damaged(path, "a counter is not finite")
    if max(progress.skipped, progress.best_step or 0) > progress.step:
        raise _damaged(path, f"a counter is beyond step {progress.step}")


def _damaged(path: Path, how: str) -> BrokenInputError:
    return BrokenInputError(f"{path} is damaged ({how})", "restore it from a copy of the run")
