"""``[train]``: how the model is trained."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen, Unit

Schedule = Literal["cosine", "linear", "inverse_sqrt", "constant", "wsd"]
Optimizer = Literal["adamw", "muon"]
Decayed = Literal["matrices", "linear", "all"]
Precision = Literal["auto", "float32", "bfloat16"]
Windows = Literal["documents", "stream"]
Device = Literal["auto", "cpu", "cuda", "mps"]
AttentionPath = Literal["auto", "fused", "rows"]
Compile = Literal["auto", "on", "off"]
Parallel = Literal["ddp", "fsdp"]

BATCH_SIZE = 32
"""Sequences (pairs) in a micro-batch where a recipe names none; documents and pairs then make about so many of mean
length, by their tokens."""

EVALUATE_TOKENS = 1 << 14
"""Of the sample that is scored between: with the other defaults, one to four hundredths of what training computes."""


@dataclass(frozen=True)
class TrainSection:
    """Steps, batches, optimizer, schedule, evaluation and checkpoints."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    steps: Annotated[int, Ge(1), Unit("steps")] = 1000
    """Optimizer updates."""

    epochs: Annotated[float, Gt(0), Le(1_000_000), Unit("passes")] | None = None
    """Passes over the training part, instead of steps; 0.5 is half of one. Counted in steps once the text is prepared,
    the last of which may begin another pass; a run records the steps alone."""

    batch_size: Annotated[int, Ge(1), Unit("sequences")] | None = None
    """Sequences (pairs, for an encoder-decoder) in a micro-batch. None: 32 windows of a stream; of documents and pairs,
    as many tokens as 32 of mean length have, decided when the run begins."""

    batch_tokens: Annotated[int, Ge(1), Unit("tokens")] | None = None
    """Tokens of a micro-batch, padding included, instead of batch_size sequences: many short ones or few long ones, so
    that a token weighs the same in every step."""

    grad_accumulation: Annotated[int, Ge(1), Unit("micro-batches")] = 1
    """Micro-batches summed into one step."""

    context: Annotated[int, Ge(2), Unit("tokens")] | None = None
    """Tokens of a training window, at most model.max_seq_len. None: model.max_seq_len."""

    windows: Windows | None = None
    """What a decoder or encoder reads at a time. documents: windows begin where documents begin, and hold one.
    stream: windows are cut from all text in a row. None: documents, if the average one fits into the context."""

    learning_rate: Annotated[float, Gt(0)] = 3e-3
    """Peak of the schedule."""

    schedule: Schedule = "cosine"
    """After the warm-up: along a cosine or a line down to the final share, falling as 1/√step, or constant. wsd is
    warm-up, stable, decay: constant, then along a line down to the final share over the last decay_share."""

    warmup_steps: Annotated[int, Ge(0), Unit("steps")] = 100
    """Steps of linear rise from 0 to learning_rate."""

    final_learning_rate: Annotated[float, Ge(0), Le(1), Unit("share")] = 0.1
    """Where the cosine or the line ends, as a share of learning_rate."""

    schedule_steps: Annotated[int, Ge(1), Unit("steps")] | None = None
    """Steps that the schedule is made for; after them the learning rate stays at its last. None: all. Set by what
    raises train.steps of a finished run without naming train.schedule."""

    decay_share: Annotated[float, Gt(0), Le(1), Unit("share")] = 0.2
    """Share of the steps over which wsd falls, at the end."""

    optimizer: Optimizer = "adamw"
    """adamw for everything; or muon for the matrices inside the layers, and adamw for the rest."""

    muon_learning_rate: Annotated[float, Gt(0)] = 0.02
    """Peak of Muon's schedule: how far a step moves a matrix whose update has been made orthogonal."""

    muon_momentum: Annotated[float, Ge(0), Lt(1)] = 0.95
    """Share of the last update's direction that Muon keeps."""

    weight_decay: Annotated[float, Ge(0)] = 0.1
    """Decoupled decay (Loshchilov and Hutter 2019) of what `decayed` names."""

    decayed: Decayed = "matrices"
    """Which weights decay. matrices: all of them, embeddings too; linear: those that multiply, without embeddings; all:
    gains and biases too."""

    beta1: Annotated[float, Ge(0), Lt(1)] = 0.9
    """Decay of Adam's first moment."""

    beta2: Annotated[float, Ge(0), Lt(1)] = 0.99
    """Decay of Adam's second moment."""

    adam_eps: Annotated[float, Gt(0)] = 1e-8
    """Added to Adam's denominator."""

    clip_norm: Annotated[float, Ge(0)] = 1.0
    """Largest gradient norm of a step; 0 leaves gradients alone."""

    skip_nonfinite: Annotated[int, Ge(0), Unit("steps")] = 0
    """Steps with a loss or gradient that is not finite to leave out before giving up; 0: give up at the first."""

    ema_decay: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Decay of a moving average of the weights, which is then what is evaluated and kept as the best; 0: none."""

    label_smoothing: Annotated[float, Ge(0), Lt(1), Unit("share")] | None = None
    """Share of the target spread over the vocabulary. None: 0.1 for an encoder-decoder, else 0."""

    mask_probability: Annotated[float, Gt(0), Lt(1), Unit("share")] = 0.15
    """Share of tokens an encoder must predict; of these 80 % are masked, 10 % replaced, 10 % kept."""

    evaluate_every: Annotated[int, Ge(0), Unit("steps")] = 250
    """Steps between evaluations; 0: only at the end."""

    evaluate_tokens: Annotated[int, Ge(0), Unit("tokens")] | None = None
    """Tokens of the validation part, evenly spread, that are scored in between and decide which weights are the best;
    the whole of it is scored at the end. 0: the whole part every time. None: 16,384."""

    patience: Annotated[int, Ge(0), Unit("evaluations")] = 0
    """Stop after this many evaluations without a better one; 0: never."""

    save_every: Annotated[int, Ge(0), Unit("steps")] = 250
    """Steps between checkpoints; 0: only at the end."""

    keep_checkpoints: Annotated[int, Ge(1), Unit("checkpoints")] = 1
    """Checkpoints to keep, the last ones; under wsd also the last one before the decay."""

    average_checkpoints: Annotated[int, Ge(0), Unit("checkpoints")] = 0
    """At the end, score the mean of the weights of so many last checkpoints, and keep it if it is better; 0: do not."""

    log_every: Annotated[int, Ge(1), Unit("steps")] = 10
    """Steps between reports of the loss."""

    init: Annotated[str, MinLen(1)] | None = None
    """A run whose weights and tokenizer to begin with, instead of new ones."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the initial weights, the order of the data, masks and dropout."""

    device: Device = "auto"
    """auto: CUDA, else CPU."""

    threads: Annotated[int, Ge(0), Unit("threads")] = 0
    """CPU threads; 0: one a core that nothing else uses when the run begins, at most as many as PyTorch would."""

    precision: Precision = "auto"
    """bfloat16 is autocast over float32 weights. auto: bfloat16 on a GPU that has it, and on a CPU with bfloat16 matrix
    units from d_model 128 on; else float32."""

    attention: AttentionPath = "auto"
    """fused: PyTorch's kernel. rows: the formula, a sequence at a time, so that its scores stay in the processor's
    cache. auto: rows where it is faster (docs/benchmarks.md), else fused."""

    compile: Compile = "auto"
    """Whether torch.compile translates the model first. auto: on a CUDA GPU."""

    activation_checkpointing: bool = False
    """Forget what is inside a layer after its forward pass, and compute it again for the backward pass: a third more
    work, far less memory."""

    parallel: Parallel = "ddp"
    """With several processes: ddp, each holds all the weights; fsdp, each holds a part of every matrix."""

    @property
    def rows(self) -> int:
        """Sequences (pairs) of a micro-batch whose tokens are not counted."""
        return self.batch_size or BATCH_SIZE
