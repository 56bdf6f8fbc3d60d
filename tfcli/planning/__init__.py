"""What a training will take, before it is begun. Memory in bytes, time in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from tfcli.inspection.model import ParameterGroup
    from tfcli.interop import Exportable

FOUND = ("steps", "batch_tokens", "warmup_steps", "evaluate_every", "save_every")
"""The settings of [train] that a plan finds."""


@dataclass(frozen=True)
class MemoryRecord:
    """The memory of a training by what it is for, the most of each kind; `peak`: the most that is held at once.

    process: the interpreter and its libraries, on a CPU. weights: with the tables of positions. copies: of weights, in
    bfloat16. optimizer: moments, and a moving average. activations: what the backward pass needs, and the kernels'
    own. allocator: freed, and not given back to the system.
    """

    process: int
    weights: int
    copies: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    allocator: int
    peak: int


@dataclass(frozen=True)
class TrainingOutline:
    """What `train` would do. A micro-batch has `batch_tokens`, or `batch_size` sequences; with `equal_tokens`, the
    tokens of so many of mean length, once these are known. `epochs` stand instead of `steps` that cannot be counted
    before the text is prepared. `flops_per_token` are those of the matrix products of forward and backward pass."""

    architecture: str
    groups: tuple[ParameterGroup, ...]
    parameters: int
    vocab_size: int
    vocab_size_is_most: bool
    sequences: int
    context: int
    steps: int | None
    tokens: int | None
    flops_per_step: int
    flops_per_token: int
    device: str
    precision: str
    attention: str
    compile: str
    threads: int
    memory: MemoryRecord
    batch_size: int
    batch_tokens: int | None
    equal_tokens: bool
    exportable: Exportable
    epochs: float | None = None
    adapter_parameters: int = 0  # where only these are trained, and the `parameters` are frozen
    checkpoints: tuple[int, int] | None = (1, 0)  # that are there in the end, whole and of weights alone
    checkpoint_bytes: int | None = 0


@dataclass(frozen=True)
class Candidate:
    """One size, and how far it comes in the time. `worth`: its tokens, repeated ones counted for less."""

    size: str
    parameters: int
    context: int
    batch_tokens: int
    learning_rate: float
    steps: int = 0
    evaluations: int = 0
    tokens: int = 0
    tokens_per_second: float = 0.0
    epochs: float = 0.0
    worth: float = 0.0
    seconds: float = 0.0
    memory: int = 0
    fits: bool = True
    chosen: bool = False


@dataclass(frozen=True)
class Measured:
    """What the proposal's real training took. `memory` is None where the system does not say it."""

    seconds: float
    memory: int | None


@dataclass(frozen=True)
class Plan:
    """A proposal for a corpus, a machine and a time. `max_documents`: of a large corpus, the first ones, which are
    trained on; None: all. `command` is what to type."""

    json_keys: ClassVar[tuple[Any, ...]] = (..., "chosen")
    minutes: float
    architecture: str
    exportable: Exportable
    sources: tuple[str, ...]
    documents: int
    train_tokens: int
    validation_tokens: int
    vocab_size: int
    max_documents: int | None
    device: str
    precision: str
    threads: int
    candidates: tuple[Candidate, ...]
    command: str
    preparing_seconds: float
    probing_seconds: float
    measured: Measured | None = None

    @property
    def chosen(self) -> Candidate:
        """The candidate that is proposed."""
        return next(candidate for candidate in self.candidates if candidate.chosen)
