"""Benchmark results: what was measured, and on which machine. Times are in seconds, memory in bytes."""

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

    `peak_share`: operations a second of `TrainingSpeed.flops_per_step` as a share of the matrix peak in its precision.
    `memory`: the most that the process held, or PyTorch on a CUDA GPU. `ratio`: its median step over that of the first
    side, which has None; `ratio_p10` and `ratio_p90` are over rounds, in each of which every side does one step.
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
    `attention` is the path of tfcli's attention; `differences` are those between the recipe's model and the other.
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


@dataclass(frozen=True)
class GenerationSide:
    """One way to generate, as `TrainingSide`; the best text of a beam counts alone.

    `prefill_seconds` go by until the first new token is there, `token_seconds` from one new token (of every text) to
    the next. `bandwidth_share` is the time in which a token's weights can be read, in the side's precision, as a share
    of `token_seconds`. The three are None where they mean nothing: for a corpus, and the share for several texts.
    """

    name: str
    model: str
    precision: str
    parameters: int
    tokens_per_second: float
    seconds: Spread
    prefill_seconds: Spread | None
    token_seconds: Spread | None
    bandwidth_share: float | None
    memory: int
    ratio: float | None = None
    ratio_p10: float | None = None
    ratio_p90: float | None = None


@dataclass(frozen=True)
class GenerationSpeed:
    """`rounds` generations of every side in turns, after `warmup` that do not count.

    A generation makes `new_tokens` tokens for each of `batch` prompts (an encoder-decoder: sources) of `prompt_tokens`
    random ids; or for each of `sentences` sources whose mean length that is, `batch` of like length at a time.
    `weight_bytes` are those of the matrices that one more token is multiplied with, in tfcli's precision, and
    `read_bandwidth` is what the machine reads from memory at most, in bytes a second. `same_ids` is the share of the
    new tokens that are the same on both sides; None where there is one side, or another model.
    """

    recipe: str
    architecture: str
    num_layers: int
    d_model: int
    num_heads: int
    vocab_size: int
    batch: int
    prompt_tokens: float
    new_tokens: int
    beam: int
    sentences: int | None
    rounds: int
    warmup: int
    weight_bytes: int
    read_bandwidth: float
    machine: Machine
    sides: tuple[GenerationSide, ...]
    same_ids: float | None = None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class DataSide:
    """One way from text to token ids, as `TrainingSide`; in a round all the text is encoded once."""

    name: str
    bytes_per_second: float
    tokens_per_second: float
    seconds: Spread
    memory: int
    ratio: float | None = None
    ratio_p10: float | None = None
    ratio_p90: float | None = None


@dataclass(frozen=True)
class DataSpeed:
    """`rounds` rounds of every side in turns, after `warmup` that do not count. `lines` are texts, or pieces of long
    ones, `tokens` their ids without those that begin or end a text. `context`: tokens of the windows of `datasets.map`.
    """

    sources: tuple[str, ...]
    lines: int
    bytes: int
    tokens: int
    algorithm: str
    vocab_size: int
    context: int
    rounds: int
    warmup: int
    machine: Machine
    sides: tuple[DataSide, ...]
