"""What the training loop says while it runs. Losses are in nats a token."""

from dataclasses import dataclass
from typing import Literal

Reason = Literal["done", "early", "interrupted"]
"""Why a training ended: at its last step; because no evaluation was better for long; because it was asked to."""


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
    left_out: int = 0
    """Pairs that are too long for the context and take no part."""


@dataclass(frozen=True)
class StepsDone:
    """Sent every `log_every` steps; `loss` is the mean over the target tokens since the last one.

    It is what training minimises: with label smoothing, more than the loss of an evaluation on the same tokens.
    """

    step: int
    total_steps: int
    tokens: int
    loss: float
    learning_rate: float
    grad_norm: float
    tokens_per_second: float
    seconds: float
    seconds_left: float


@dataclass(frozen=True)
class Evaluated:
    """The whole validation part was scored."""

    step: int
    tokens: int
    loss: float
    accuracy: float
    best: bool
    seconds: float


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


TrainingEvent = TrainingStarted | StepsDone | Evaluated | CheckpointSaved | TrainingFinished
