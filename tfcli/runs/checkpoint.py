"""Training checkpoint: its ``state.json``, the counters of a training and what they belong to, under a digest."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import digest, read_versioned, validated, write_json
from tfcli.recipe.train import TrainSection
from tfcli.records.runs import Reason, TrainingFinished
from tfcli.runs.directory import RunDirectory

FORMAT_VERSION = 5
WITHOUT_DIGEST = 3  # an older format: the counters alone. That of 4 lacks some of them
STATE = "state.json"
_RESTORE = "restore it from a copy of the run"
Count = Annotated[int, Ge(0), Le(1 << 53)]


@dataclass
class Progress:
    """Counters of a training."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic, never changed)

    step: Count = 0
    tokens: Count = 0
    seconds: Annotated[float, Ge(0)] = 0.0  # of training and evaluation
    best_loss: float | None = None  # on the part that is scored in between
    best_step: Count | None = None
    stale: Count = 0  # evaluations since the best one
    skipped: Count = 0  # steps left out, whose numbers were not finite
    lines: Count = 0  # of metrics.jsonl so far
    pending_loss: float = 0.0  # as all that is pending: summed up for the next report, as in an unbroken run
    pending_targets: Count = 0
    pending_tokens: Count = 0
    pending_places: Count = 0
    finished: bool = False
    unevaluated: bool = False  # the evaluation that was due at this step was still to come
    pending_objective: float | None = None
    whole_loss: float | None = None  # of the kept weights on the whole part, at the end, where another was in between

    @property
    def updates(self) -> int:
        """Of the weights: steps that were not left out."""
        return self.step - self.skipped


@dataclass(frozen=True)
class Origin:
    """What a checkpoint belongs to: run id, fingerprints of tokenizer and dataset, role ids, decisive settings."""

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

    @property
    def is_whole(self) -> bool:
        """Whether a training can go on from it; of a step that train.keep_every alone keeps, there are only weights."""
        return any(self.folder.glob("optimizer.*"))


def write_state(folder: Path, progress: Progress, origin: Origin) -> None:
    """Write `state.json`."""
    counters, belongs_to = asdict(progress), asdict(origin)
    signed = {"belongs_to": belongs_to, "digest": digest(counters, belongs_to)}
    write_json(folder / STATE, {"format_version": FORMAT_VERSION, **counters, **signed})


def open_checkpoint(folder: Path) -> Checkpoint:
    """Read and check a checkpoint's `state.json`; none of its tensors. A `BrokenInputError` where it is missing or
    damaged, was edited, is of another step than its folder's, or of a format version that this tfcli does not read."""
    path = folder / STATE
    if not path.is_file():
        raise BrokenInputError(f"{folder} has no {STATE}", _RESTORE)

    def damaged(how: str) -> BrokenInputError:
        return BrokenInputError(f"{path} is damaged ({how})", _RESTORE)

    version, values = read_versioned(path, *range(WITHOUT_DIGEST, FORMAT_VERSION + 1), remedy=_RESTORE)
    belongs_to, signature = values.pop("belongs_to", None), values.pop("digest", None)
    progress = validated(Progress, values, path, _RESTORE)
    if folder.name != RunDirectory(folder).checkpoint(progress.step).name:
        raise damaged(f"it is of step {progress.step}: of another step than its folder, or another run")
    if not all(math.isfinite(value) for value in asdict(progress).values() if value is not None):
        raise damaged("a counter is not finite")
    if max(progress.skipped, progress.best_step or 0) > progress.step:
        raise damaged(f"a counter is beyond step {progress.step}")
    if version == WITHOUT_DIGEST:
        return Checkpoint(folder, progress, None)
    if signature != digest(values, belongs_to):
        raise damaged("its digest is not that of its counters and what it says it belongs to")
    return Checkpoint(folder, progress, validated(Origin, belongs_to, path, _RESTORE))


def last_checkpoint(run: RunDirectory) -> Checkpoint | None:
    """The checkpoint that a run goes on from; None where it has none. A `BrokenInputError` where it is damaged."""
    with or_an_older_one(run):
        return next((open_checkpoint(folder) for folder in reversed(run.steps().values())), None)


@contextmanager
def or_an_older_one(run: RunDirectory) -> Iterator[None]:
    """What is wrong inside the block is wrong with a run's last checkpoint: the remedy names what there is instead."""
    try:
        yield
    except (BrokenInputError, UsageError) as error:
        *older, last = run.steps().items()
        remedy = f"{_RESTORE}, or begin a new one from the run's weights with --init"
        for step, folder in older:
            with suppress(TfcliError):
                if open_checkpoint(folder).is_whole:
                    remedy = f"{_RESTORE}, or remove {last[1]} to go on from step {step}"
        raise type(error)(error.problem, remedy) from error


def stopping_reason(progress: Progress, section: TrainSection) -> Reason | None:
    """Why there is nothing left to train; None: there is something."""
    if progress.step >= section.steps:
        return "done"
    return "early" if 0 < section.patience <= progress.stale else None


def finished_reason(progress: Progress, section: TrainSection) -> Reason | None:
    """Why a run that was finished is so still; None: it was not, or was given more to do since."""
    return stopping_reason(progress, section) if progress.finished else None


def finished_event(run: RunDirectory, progress: Progress, reason: Reason) -> TrainingFinished:
    """What the last event of a training says."""
    p, best = progress, progress.best_loss if progress.whole_loss is None else progress.whole_loss
    return TrainingFinished(reason, p.step, p.tokens, p.seconds, best, best_step=p.best_step, run=str(run.path))
