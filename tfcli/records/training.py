"""What the training loop says while it runs. Losses are in nats a token."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Reason = Literal["done", "early", "interrupted"]
"""Why a training ended: at its last step; because no evaluation was better for long; because it was asked to."""

Scored = Literal["weights", "moving_average", "checkpoints", "best"]
"""Whose loss an evaluation measured: the weights'; their moving average's; the mean's of the last checkpoints; at the
end, that of the weights that were the best so far."""

Scope = Literal["whole", "sample"]
"""What an evaluation scored: the whole validation part, or train.evaluate_tokens of it, evenly spread."""


@dataclass(frozen=True)
class TrainingStarted:
    """Sent once, before the first step (again after a resume, with `step` > 0)."""

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
    threads: int = 1
    """Of the CPU."""
    busy_cores: int = 0
    """That other programs were found to use."""
    warmup_steps: int = 0
    """In which the learning rate rises, as the recipe has it."""
    left_out: int = 0
    """Pairs that are too long for the context and take no part."""
    lost_lines: int = 0
    """Lines of metrics.jsonl that were there when the run was saved, and are there no more."""
    batch_tokens: int | None = None
    """Most tokens of a micro-batch, where they are counted."""
    evaluate_tokens: int | None = None
    """Tokens of the validation part that are scored in between; None: all."""
    without_digest: bool = False
    """Whether the checkpoint is of before they told what they belong to: some edits of its run cannot be seen."""


@dataclass(frozen=True)
class SettingChanged:
    """A setting that a resume has changed, before step `step` + 1. `key` is ``section.field``; `rate_before`
    and `rate_after` are the learning rates of step `step` before it and of the next one after it, where it bears on
    them."""

    step: int
    key: str
    from_: Any
    to: Any
    rate_before: float | None = None
    rate_after: float | None = None


@dataclass(frozen=True)
class StepsDone:
    """Sent every `log_every` steps; `loss` is the mean cross-entropy of the target tokens since the last one."""

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
    padding: float = 0.0
    """Share of places without a token among all places read since the last report."""
    skipped: int = 0
    """Steps left out since the run began, because their loss or gradient was not finite."""
    spike: bool = False
    """Whether the loss stands out far above the recent ones."""
    weight_norms: Mapping[str, float | None] = field(default_factory=dict)
    """‖w‖ behind the last step, of "all" parameters and by what they are part of: embeddings, attention, feed_forward,
    norms, head. None: not finite."""
    update_ratios: Mapping[str, float | None] = field(default_factory=dict)
    """‖Δw‖ / ‖w‖ of the last step, by the same names; 0 where the step was left out."""


@dataclass(frozen=True)
class Evaluated:
    """The validation part was scored. `of_step`: the step that the weights are of, where it is not `step`."""

    step: int
    tokens: int
    loss: float
    accuracy: float
    best: bool
    seconds: float
    of: Scored = "weights"
    part: Scope = "whole"
    of_step: int | None = None


@dataclass(frozen=True)
class CheckpointSaved:
    """A checkpoint is on the disk, whole."""

    step: int
    path: str


@dataclass(frozen=True)
class TrainingFinished:
    """The last event. `interrupted`: saved, to be resumed. `early`: no better evaluation for `patience` of them."""

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
