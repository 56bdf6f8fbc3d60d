"""What a training tells: its events, its metrics, and the runs that it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Reason = Literal["done", "early", "interrupted"]  # last step; nothing better for long; asked to

Scored = Literal["weights", "moving_average", "checkpoints", "best"]
"""Whose loss was measured: the weights', their moving average's, the last checkpoints' mean's, or the best weights'."""

Scope = Literal["whole", "sample"]  # scored: the validation part, or train.evaluate_tokens of it, evenly spread


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
    without_digest: bool = False  # of a checkpoint of before they told what they belong to: some edits are not seen
    adapter_parameters: int = 0  # where only these are trained, and the `parameters` are frozen
    loss_unit: str = "nats per token"


@dataclass(frozen=True)
class SettingChanged(_Event):
    """A setting, as ``section.field``, that a resume changed behind `step`, with learning rates of it and the next."""

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
    objective: float | None = None  # with label smoothing, the mean of what is minimised: in old metrics, the `loss`
    padding: float = 0.0  # share of places without a token among all places read since the last report
    skipped: int = 0  # steps left out since the run began, because their loss or gradient was not finite
    spike: bool = False  # whether the loss stands out far above the recent ones
    weight_norms: Mapping[str, float | None] = field(default_factory=dict)
    """‖w‖ behind the last step, of "all" parameters and by part, as `weight_groups` has it. None: not finite."""
    update_ratios: Mapping[str, float | None] = field(default_factory=dict)  # ‖Δw‖ / ‖w‖ of the step; 0: left out


@dataclass(frozen=True)
class Evaluated(_Event):
    """The validation part was scored, with weights of `of_step` if not `step`; `f1`: of entities or spans, or macro;
    `watched`: what train.watch names, measured."""

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


@dataclass(frozen=True)
class RunEnding:
    """What to say of a run when its training has ended.

    Attributes:
        run: Its folder.
        objective: What was minimised, as `Recipe.objective` names it.
        loss: The best validation loss, in nats.
        num_choices: The ids, or the labels, among which the model chooses.
        frequency_loss: The validation loss of always guessing by how frequent each choice is in the training part;
            None if it was not computed.
        commands: Commands to type next, with texts of the run's own.
    """

    run: str
    objective: str
    loss: float | None
    num_choices: int
    frequency_loss: float | None
    commands: tuple[tuple[str, ...], ...]


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
    """A run in a line. `seconds`: of training; `age_seconds`: since it was written to; `problem`: why it is damaged."""

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
    """A run's metrics, oldest first; `whole`: beside samples, scored on all at the end; `padding`: its mean share."""

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
    """All of one run."""

    summary: RunSummary
    objective: str
    model: dict[str, Any]
    tokenizer: dict[str, Any]  # its algorithm (None where the run did not train it), vocab_size and fingerprint
    text: dict[str, Any] | None  # that it was trained on, as data.json has it
    origin: str | None  # from where it was imported
    settings: tuple[Setting, ...]
    history: History
    kept: tuple[KeptFile, ...]
    bits_per_byte: float | None = None  # of the best evaluation, where the size of the validation text is known


@dataclass(frozen=True)
class SettingRow:
    """A recipe key on which compared runs differ, with each one's value."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SeedSpread:
    """Best losses of compared runs (places) that differ by seed alone, set apart by `settings`; deviation by n − 1."""

    settings: dict[str, Any]
    runs: tuple[int, ...]
    mean: float
    deviation: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class SeedDifference:
    """The best losses of one group of seeds minus those of another, paired by seed.

    Attributes:
        first: Place of the group whose losses are subtracted, in `RunComparison.spreads`.
        second: Place of the other group.
        seeds: The seeds that both groups have.
        mean: Mean of the differences, nats.
        low: Lower end of the 95 % interval (Student's t).
        high: Upper end.
    """

    first: int
    second: int
    seeds: tuple[int, ...]
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class RunComparison:
    """Runs side by side, with the settings on which they differ; `notes` say why losses cannot be compared."""

    runs: tuple[RunDetail, ...]
    settings: tuple[SettingRow, ...]
    comparable: bool
    spreads: tuple[SeedSpread, ...] = ()
    notes: tuple[str, ...] = ()
    differences: tuple[SeedDifference, ...] = ()


@dataclass(frozen=True)
class TrainingCurves:
    """A run's N reports of G groups, and E evaluations, oldest first. NaN: not recorded, or not finite."""

    run: str
    groups: tuple[str, ...]  # "all" parameters, then what they are part of; () where that was not recorded yet
    steps: NDArray[np.int64]  # (N,)
    losses: NDArray[np.float64]  # (N,), in `loss_unit`, as all losses
    objectives: NDArray[np.float64]  # (N,), of smoothed labels
    learning_rates: NDArray[np.float64]  # (N,)
    grad_norms: NDArray[np.float64]  # (N,)
    weight_norms: NDArray[np.float64]  # (G, N): ‖w‖ of the last step before each report
    update_ratios: NDArray[np.float64]  # (G, N): ‖Δw‖ / ‖w‖ of that step
    typical_ratios: NDArray[np.float64]  # (G,): their medians over the reports at which anything moved
    evaluated_steps: NDArray[np.int64]  # (E,)
    evaluated_losses: NDArray[np.float64]  # (E,)
    watched: tuple[Mapping[str, float | None], ...] = ()  # as many: what train.watch measured
    loss_unit: str = "nats per token"
