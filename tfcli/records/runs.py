"""What a training tells: its events, its metrics, and the runs that it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Reason = Literal["done", "early", "interrupted"]
"""Why a training ended: at its last step; because no evaluation was better for long; because it was asked to."""

Scored = Literal["weights", "moving_average", "checkpoints", "best"]
"""Whose loss an evaluation measured: the weights'; their moving average's; the mean's of the last checkpoints; at the
end, that of the weights that were the best so far."""

Scope = Literal["whole", "sample"]
"""What an evaluation scored: the whole validation part, or train.evaluate_tokens of it, evenly spread."""


class _Event:
    """Its JSON begins with its name."""

    json_keys: ClassVar[tuple[Any, ...]] = ("event", ...)


@dataclass(frozen=True)
class TrainingStarted(_Event):
    """Sent once, before the first step (again after a resume, with `step` > 0)."""

    event = "started"
    run: str
    architecture: str
    parameters: int
    step: int
    total_steps: int
    tokens_per_step: int
    train_tokens: int
    validation_tokens: int
    device: str
    precision: str
    threads: int = 1  # of the CPU
    busy_cores: int = 0  # that other programs were found to use
    warmup_steps: int = 0  # in which the learning rate rises, as the recipe has it
    left_out: int = 0  # pairs that are too long for the context and take no part
    lost_lines: int = 0  # lines of metrics.jsonl that were there when the run was saved, and are there no more
    batch_tokens: int | None = None  # most tokens of a micro-batch, where they are counted
    evaluate_tokens: int | None = None  # tokens of the validation part that are scored in between; None: all
    without_digest: bool = False
    """Whether the checkpoint is of before they told what they belong to: some edits of its run cannot be seen."""
    adapter_parameters: int = 0  # where only these are trained, and the `parameters` are frozen


@dataclass(frozen=True)
class SettingChanged(_Event):
    """A setting, as ``section.field``, that a resume has changed before step `step` + 1; `rate_before` and `rate_after`
    are the learning rates of that step and the next, where it bears on them."""

    event = "changed"
    step: int
    key: str
    from_: Any
    to: Any
    rate_before: float | None = None
    rate_after: float | None = None


@dataclass(frozen=True)
class StepsDone(_Event):
    """Sent every `log_every` steps; `loss` is the mean cross-entropy of the target tokens since the last one."""

    event = "step"
    step: int
    total_steps: int
    tokens: int
    loss: float
    learning_rate: float
    grad_norm: float
    tokens_per_second: float
    seconds: float
    seconds_left: float
    objective: float | None = None
    """With label smoothing, the mean of what is minimised; in metrics of before there was this, `loss` was that."""
    padding: float = 0.0  # share of places without a token among all places read since the last report
    skipped: int = 0  # steps left out since the run began, because their loss or gradient was not finite
    spike: bool = False  # whether the loss stands out far above the recent ones
    weight_norms: Mapping[str, float | None] = field(default_factory=dict)
    """‖w‖ behind the last step, of "all" parameters and by what they are part of: embeddings, attention, feed_forward,
    norms, head. None: not finite."""
    update_ratios: Mapping[str, float | None] = field(default_factory=dict)
    """‖Δw‖ / ‖w‖ of the last step, by the same names; 0 where the step was left out."""


@dataclass(frozen=True)
class Evaluated(_Event):
    """The validation part was scored. `of_step`: the step that the weights are of, where it is not `step`. `f1` is that
    of a task head: of entities or spans, else macro-F1. `watched`: what train.watch names, measured."""

    event = "evaluated"
    step: int
    tokens: int
    loss: float
    accuracy: float
    best: bool
    seconds: float
    of: Scored = "weights"
    part: Scope = "whole"
    of_step: int | None = None
    f1: float | None = None
    watched: Mapping[str, float] | None = None


@dataclass(frozen=True)
class CheckpointSaved(_Event):
    """A checkpoint is on the disk, whole."""

    event = "saved"
    step: int
    path: str


@dataclass(frozen=True)
class TrainingFinished(_Event):
    """The last event. `interrupted`: saved, to be resumed. `early`: no better evaluation for `patience` of them."""

    event = "finished"
    reason: Reason
    step: int
    tokens: int
    seconds: float
    best_loss: float | None
    best_step: int | None
    run: str


TrainingEvent = TrainingStarted | SettingChanged | StepsDone | Evaluated | CheckpointSaved | TrainingFinished

Stage = Literal["tokenizer", "data", "training", "evaluation", "generation", "inspection"]


@dataclass(frozen=True)
class StageStarted:
    """A stage begins; `reused`: its inputs are unchanged, so that nothing has to be done."""

    stage: Stage
    detail: str
    reused: bool = False


@dataclass(frozen=True)
class StageProgress:
    """Documents and, where they are known, tokens done so far."""

    stage: Stage
    documents: int
    tokens: int | None = None


@dataclass(frozen=True)
class CheckResult:
    """One limit of a recipe's [check] section, and what was measured."""

    name: str
    limit: float
    measured: float | None
    passed: bool


RunState = Literal["finished", "interrupted", "running", "imported", "damaged"]
"""running: a process trains into it now. interrupted: begun, and not at its end. imported: not trained here."""


@dataclass(frozen=True)
class RunSummary:
    """A run in a line. `seconds` is its training time, `age_seconds` the time since it was last written to. What a
    damaged run does not tell is None, and `problem` says what is wrong."""

    path: str
    name: str
    state: RunState
    age_seconds: float
    architecture: str | None = None
    parameters: int | None = None
    step: int | None = None
    total_steps: int | None = None
    tokens: int | None = None
    best_loss: float | None = None
    best_step: int | None = None
    seconds: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class StepPoint:
    """A report of training, as `StepsDone` has it. What the run did not record is None, or empty."""

    step: int
    tokens: int
    seconds: float
    loss: float | None
    learning_rate: float | None
    grad_norm: float | None
    objective: float | None = None
    spike: bool = False
    weight_norms: Mapping[str, float | None] = field(default_factory=dict)
    update_ratios: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationPoint:
    """The validation part, scored; `tokens` and `seconds` are those that training had come to by then."""

    step: int
    tokens: int
    seconds: float
    loss: float | None
    accuracy: float | None
    scored_tokens: int
    of: Scored = "weights"
    part: Scope = "whole"
    watched: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """A run's metrics, oldest first. `whole`: of a run that scores a sample in between, what it scored on the whole
    part at its end. `padding` is the mean share of places without a token."""

    training: tuple[StepPoint, ...] = ()
    validation: tuple[EvaluationPoint, ...] = ()
    changes: tuple[SettingChanged, ...] = ()
    padding: float | None = None
    whole: tuple[EvaluationPoint, ...] = ()

    @property
    def best(self) -> EvaluationPoint | None:
        """The evaluation with the lowest loss, on the whole part where that was scored; the first of equal ones."""
        known = [point for point in self.whole or self.validation if point.loss is not None]
        return min(known, key=lambda point: (point.loss, point.step), default=None)


@dataclass(frozen=True)
class Setting:
    """A recipe key, as ``section.field``, with its value here and the default."""

    key: str
    value: Any
    default: Any


@dataclass(frozen=True)
class KeptFile:
    """Something on the disk, by its name in the run, with its size in bytes."""

    name: str
    bytes: int


@dataclass(frozen=True)
class RunDetail:
    """All of one run. `text` is what it was trained on, as data.json has it, or `origin` where it was imported from.
    `bits_per_byte` is that of the best evaluation, where the size of the validation text is known."""

    summary: RunSummary
    objective: str
    model: dict[str, Any]
    tokenizer: dict[str, Any]  # its algorithm (None where the run did not train it), vocab_size and fingerprint
    text: dict[str, Any] | None
    origin: str | None
    settings: tuple[Setting, ...]
    history: History
    kept: tuple[KeptFile, ...]
    bits_per_byte: float | None = None


@dataclass(frozen=True)
class SettingRow:
    """A recipe key on which compared runs differ, with each one's value."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SeedSpread:
    """The best losses of compared runs (by their places) that differ in their seed alone. `settings` set them apart
    from the other runs; `deviation` is the standard deviation (n − 1)."""

    settings: dict[str, Any]
    runs: tuple[int, ...]
    mean: float
    deviation: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class RunComparison:
    """Runs side by side, with the settings on which they differ; `notes` say why losses cannot be compared."""

    runs: tuple[RunDetail, ...]
    settings: tuple[SettingRow, ...]
    comparable: bool
    spreads: tuple[SeedSpread, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingCurves:
    """A run's reports, oldest first. NaN: not recorded, or not finite. Losses are in nats a token, `objectives` are
    there where labels are smoothed.

    `groups` are "all" parameters, then what they are part of; () where the run was trained before these figures were
    recorded. `weight_norms` and `update_ratios` are ‖w‖ and ‖Δw‖ / ‖w‖ of the last step before each report;
    `typical_ratios` are the medians of the latter over the reports at which anything moved.

    Shape: steps, losses, objectives, learning_rates, grad_norms (N,); weight_norms, update_ratios (G, N);
    typical_ratios (G,); evaluated_steps, evaluated_losses (E,), as many as `watched`, what train.watch
    measured."""

    run: str
    groups: tuple[str, ...]
    steps: NDArray[np.int64]
    losses: NDArray[np.float64]
    objectives: NDArray[np.float64]
    learning_rates: NDArray[np.float64]
    grad_norms: NDArray[np.float64]
    weight_norms: NDArray[np.float64]
    update_ratios: NDArray[np.float64]
    typical_ratios: NDArray[np.float64]
    evaluated_steps: NDArray[np.int64]
    evaluated_losses: NDArray[np.float64]
    watched: tuple[Mapping[str, float | None], ...] = ()
