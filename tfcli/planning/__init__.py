"""What a training will take, before it is begun. Memory in bytes, time in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from tfcli.inspection.model import ParameterGroup
    from tfcli.interop import Exportable

FOUND = ("steps", "batch_tokens", "warmup_steps", "evaluate_every", "save_every")  # settings of [train], by a plan


@dataclass(frozen=True)
class MemoryRecord:
    """The memory of a training by what it is for, the most of each kind."""

    process: int  # the interpreter and its libraries, on a CPU
    weights: int  # with the tables of positions
    copies: int  # of weights, in bfloat16
    gradients: int
    optimizer: int  # moments, and a moving average
    activations: int  # what the backward pass needs, and the kernels' own
    logits: int
    allocator: int  # freed, and not given back to the system
    peak: int  # the most that is held at once


@dataclass(frozen=True)
class TrainingOutline:
    """What `train` would do. A micro-batch has `batch_tokens`, or `batch_size` sequences."""

    architecture: str
    groups: tuple[ParameterGroup, ...]
    parameters: int
    vocab_size: int
    vocab_size_is_most: bool
    sequences: int
    context: int
    steps: int | None  # None: counted once the text is prepared, from `epochs`
    tokens: int | None
    flops_per_step: int
    flops_per_token: int  # of the matrix products of forward and backward pass
    device: str
    precision: str
    attention: str
    compile: str
    threads: int
    memory: MemoryRecord
    batch_size: int
    batch_tokens: int | None
    equal_tokens: bool  # a micro-batch has the tokens of so many of mean length, once these are known
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
    """What the proposal's real training took."""

    seconds: float
    memory: int | None  # None: the system does not say it


@dataclass(frozen=True)
class Plan:
    """A proposal for a corpus, a machine and a time."""

    json_keys: ClassVar[tuple[Any, ...]] = (..., "chosen")
    minutes: float
    architecture: str
    exportable: Exportable
    sources: tuple[str, ...]
    documents: int
    train_tokens: int
    validation_tokens: int
    vocab_size: int
    max_documents: int | None  # of a large corpus, the first ones, which are trained on; None: all
    device: str
    precision: str
    threads: int
    candidates: tuple[Candidate, ...]
    command: str  # what to type
    preparing_seconds: float
    probing_seconds: float
    measured: Measured | None = None

    @property
    def chosen(self) -> Candidate:
        """The candidate that is proposed."""
        return next(candidate for candidate in self.candidates if candidate.chosen)
