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
    """One way to train. `peak_share`: its `flops_per_step` a second as a share of the matrix peak in its precision.
    `ratio`: its median step over that of the first side, which has None; `ratio_p10` and `ratio_p90`: over rounds, in
    each of which every side does one step. `memory`: the most that its process held, or PyTorch on a CUDA GPU."""

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
class ModelSpeed:
    """The shape of the model whose speed is measured, and the recipe that it is of."""

    recipe: str
    architecture: str
    num_layers: int
    d_model: int
    num_heads: int
    vocab_size: int


@dataclass(frozen=True)
class TrainingSpeed(ModelSpeed):
    """`steps` measured steps of every side in turns, after `warmup` that do not count. A step is `micro_batches` of
    `sequences` of `length` random ids, `tokens_per_step` in all (of both sides of pairs). `flops_per_step`: of the
    recipe's matrix products forward and backward, without what a mask hides."""

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
    """One way to generate, as `TrainingSide`; the best text of a beam counts alone. `prefill_seconds`: until the first
    new token; `token_seconds`: from one (of every text) to the next; `bandwidth_share`: the time in which its weights
    can be read as a share of that. None where they mean nothing."""

    name: str
    model: str
    precision: str
    parameters: int
    tokens_per_second: float
    seconds: Spread
    prefill_seconds: Spread
    token_seconds: Spread | None
    bandwidth_share: float | None
    memory: int
    ratio: float | None = None
    ratio_p10: float | None = None
    ratio_p90: float | None = None


@dataclass(frozen=True)
class GenerationSpeed(ModelSpeed):
    """`rounds` generations of every side in turns, after `warmup` that do not count. Each makes `new_tokens` for each
    of `batch` prompts (sources) of `prompt_tokens` random ids. `weight_bytes`: of the matrices that one more token is
    multiplied with. `same_ids`: share of the new tokens that are the same on both sides, of one model."""

    batch: int
    prompt_tokens: float
    new_tokens: int
    beam: int
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


AnySide = TrainingSide | GenerationSide | DataSide


@dataclass(frozen=True)
class DataSpeed:
    """`rounds` of every side in turns, after `warmup` that do not count. `lines` are texts, or pieces of long ones,
    `tokens` their ids without those that begin or end a text. `context`: tokens of the windows of `datasets.map`."""

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


@dataclass(frozen=True)
class PatchingSpeed(ModelSpeed):
    """A grid of `patches` between two texts of `length` random ids (of each side): in `seconds`, and `naive` in one
    whole pass a patch; ratios as in `TrainingSide`. `most`: the ratio if a patch took the time of whole passes in large
    batches, times the share of the weights behind it. `apart`: how much the two ways differ at most, in logits."""

    length: int
    patches: int
    rounds: int
    machine: Machine
    seconds: Spread
    naive: Spread
    ratio: float
    ratio_p10: float
    ratio_p90: float
    most: float
    apart: float
