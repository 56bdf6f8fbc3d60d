"""What a benchmark measured, and on which machine. Times are in seconds, memory in bytes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """Where it was measured. `cores`: those this process may use; `threads`: those PyTorch was told to use."""

    processor: str
    cores: int
    threads: int
    device: str
    torch: str
    transformers: str | None = None


@dataclass(frozen=True)
class MatrixPeak:
    """The fastest matrix product in a precision: (rows, inner) × (inner, columns)."""

    precision: str
    flops_per_second: float
    rows: int
    inner: int
    columns: int


@dataclass(frozen=True)
class Spread:
    """The 10th, 50th and 90th percentile over the measured steps."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True)
class TrainingSide:
    """One way to train, measured in a process of its own.

    `peak_share` is the model's operations a second (those of `TrainingSpeed.flops_per_step`, whatever the side does
    beyond them) as a share of the matrix peak in its precision. `memory` is the most the process held (on a CUDA GPU:
    the most PyTorch held there). `ratio` is its median step over that of the first side, which has None; `ratio_p10`
    and `ratio_p90` are over rounds, in each of which every side does one step.
    """

    name: str
    model: str
    precision: str
    parameters: int
    tokens_per_second: float
    step_seconds: Spread
    peak_share: float
    memory: int
    ratio: float | None = None
    ratio_p10: float | None = None
    ratio_p90: float | None = None


@dataclass(frozen=True)
class Difference:
    """A setting in which the compared model is another one than the recipe's."""

    setting: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class TrainingSpeed:
    """`steps` measured steps of every side in turns, after `warmup` that do not count.

    A step is `micro_batches` of `sequences` of `length` random ids, `tokens_per_step` in all (of both sides of pairs).
    `flops_per_step` are those of the recipe's matrix products forward and backward, without what a mask hides.
    `attention` is the path of tfcli's attention, and `compiled` whether torch.compile translates it.
    `differences` are those between the recipe's model and the compared one; none: it is the same.
    """

    recipe: str
    architecture: str
    num_layers: int
    d_model: int
    num_heads: int
    vocab_size: int
    length: int
    sequences: int
    micro_batches: int
    tokens_per_step: int
    flops_per_step: int
    attention: str
    compiled: bool
    steps: int
    warmup: int
    machine: Machine
    peaks: tuple[MatrixPeak, ...]
    sides: tuple[TrainingSide, ...]
    differences: tuple[Difference, ...] = ()
