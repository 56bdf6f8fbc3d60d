"""``[train]``: batches, optimizer, learning-rate schedule, early stopping and checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen, Unit

from tfcli.recipe import Refusal, Section

Windows = Literal["documents", "stream"]
Denoising = Literal["span-corruption", "infilling"]
Device = Literal["auto", "cpu", "cuda", "mps"]
AttentionPath = Literal["auto", "fused", "rows"]
Compile = Literal["auto", "on", "off"]

BATCH_SIZE = 32
"""Sequences in a micro-batch where none are named; of documents and pairs, the tokens of so many of mean length."""

EVALUATE_TOKENS = 1 << 14
"""Tokens of the sample that is scored during training: with other defaults, 1 to 4 % of what training computes."""


@dataclass(frozen=True)
class TrainSection(Section):
    """Steps, batches, optimizer, schedule, evaluation and checkpoints."""

    steps: Annotated[int, Ge(1), Unit("steps")] = 1000
    """Optimizer updates."""

    epochs: Annotated[float, Gt(0), Le(1_000_000), Unit("passes")] | None = None
    """Passes over the training part, instead of steps; 0.5 is half a pass. They are turned into steps once the text is
    prepared, and the run records only the steps; the last step may begin another pass."""

    batch_size: Annotated[int, Ge(1), Unit("sequences")] | None = None
    """Sequences (pairs, for an encoder-decoder) in a micro-batch. None: 32 windows of a stream; of documents or pairs,
    as many tokens as 32 of mean length have, which is decided when the run begins."""

    batch_tokens: Annotated[int, Ge(1), Unit("tokens")] | None = None
    """Tokens of a micro-batch, padding included, instead of batch_size: so a token weighs the same in every step."""

    grad_accumulation: Annotated[int, Ge(1), Unit("micro-batches")] = 1
    """Gradient accumulation: micro-batches whose gradients are summed into one step."""

    context: Annotated[int, Ge(2), Unit("tokens")] | None = None
    """Tokens of a training window, at most model.max_seq_len. None: model.max_seq_len."""

    windows: Windows | None = None
    """How text is cut for a decoder or an encoder. documents: a window holds one document, or a part of it. stream:
    windows are cut from all text in a row (packing). None: documents, if the average one fits into the context."""

    document_masking: bool = False
    """Whether attention keeps to one document where a window of a stream holds several (Llama Team 2024, section 3.2):
    a document is read as if it stood alone, from position 0 on, and no token is predicted from another document."""

    learning_rate: Annotated[float, Gt(0)] = 3e-3
    """Peak of the learning-rate schedule."""

    schedule: Literal["cosine", "linear", "inverse_sqrt", "constant", "wsd"] = "cosine"
    """Learning-rate schedule after the warm-up. cosine and linear fall to final_learning_rate, inverse_sqrt as 1/√step,
    constant stays. wsd (warm-up, stable, decay) stays, then falls linearly over the last decay_share of the steps."""

    warmup_steps: Annotated[int, Ge(0), Unit("steps")] = 100
    """Steps of linear rise from 0 to learning_rate."""

    final_learning_rate: Annotated[float, Ge(0), Le(1), Unit("share")] = 0.1
    """Learning rate at the end of the schedule, as a share of learning_rate."""

    schedule_steps: Annotated[int, Ge(1), Unit("steps")] | None = None
    """Steps over which the schedule runs; after them the learning rate stays at its last value. None: all steps. It is
    set when train.steps of a finished run is raised without naming train.schedule."""

    decay_share: Annotated[float, Gt(0), Le(1), Unit("share")] = 0.2
    """Share of the steps, at the end, over which the learning rate of wsd falls."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """adamw for everything; or muon for the matrices inside the layers, and adamw for the rest."""

    muon_learning_rate: Annotated[float, Gt(0)] = 0.02
    """Peak learning rate of Muon: how far a step moves a matrix along its orthogonalized update."""

    muon_momentum: Annotated[float, Ge(0), Lt(1)] = 0.95
    """Share of the last update's direction that Muon keeps."""

    weight_decay: Annotated[float, Ge(0)] = 0.1
    """Decoupled weight decay (Loshchilov and Hutter 2019) of the weights that `decayed` names."""

    decayed: Literal["matrices", "linear", "all"] = "matrices"
    """What decays. matrices: all, with embeddings; linear: those of linear layers; all: also gains and biases."""

    beta1: Annotated[float, Ge(0), Lt(1)] = 0.9
    """Decay of Adam's first moment."""

    beta2: Annotated[float, Ge(0), Lt(1)] = 0.99
    """Decay of Adam's second moment."""

    adam_eps: Annotated[float, Gt(0)] = 1e-8
    """Added to Adam's denominator."""

    clip_norm: Annotated[float, Ge(0)] = 1.0
    """Gradient clipping: the largest norm that a step's gradient may have; 0 leaves gradients alone."""

    skip_nonfinite: Annotated[int, Ge(0), Unit("steps")] = 0
    """How many steps may be skipped because loss or gradient is not finite; the next one ends the training."""

    ema_decay: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Decay of an exponential moving average of the weights, which is then evaluated and kept as the best; 0: none."""

    label_smoothing: Annotated[float, Ge(0), Lt(1), Unit("share")] | None = None
    """Label smoothing: share of the target spread over the vocabulary. None: 0; of an encoder-decoder of pairs, 0.1."""

    mask_probability: Annotated[float, Gt(0), Lt(1), Unit("share")] = 0.15
    """Share of the tokens that an encoder must predict; of these 80 % are masked, 10 % replaced, 10 % kept."""

    whole_words: bool = False
    """Whole-word masking: an encoder predicts all pieces of a word or none of them."""

    objective: Literal["span-corruption", "infilling", "prefix"] | None = None
    """What is learned from plain text. span-corruption: an encoder-decoder writes the spans that sentinels stand for
    (T5). infilling: an encoder-decoder reads a text with spans behind masks, and writes the whole (BART). prefix: a
    decoder reads the first part of a window both ways, and predicts the rest. None: a decoder predicts every next
    token, an encoder masked ones, and an encoder-decoder the target of a pair."""

    completion_only: bool = False
    """A decoder reads pairs of prompt and answer, and only the answer and its end are scored."""

    task: Literal["classify", "tag", "span"] | None = None
    """A task head in the place of the one that predicts tokens, on an encoder or a decoder. classify: a label for each
    text. tag: a label for each word. span: the first and the last token of an answer. None: tokens are predicted."""

    class_weights: Literal["balanced"] | None = None
    """Class weights in the loss of classify and tag. balanced: all labels weigh the same in sum, however often each
    occurs in the training part. None: every text, or word, weighs the same."""

    evaluate_every: Annotated[int, Ge(0), Unit("steps")] = 250
    """Steps between evaluations; 0: only at the end."""

    evaluate_tokens: Annotated[int, Ge(0), Unit("tokens")] | None = None
    """Tokens of the validation part, evenly spread, that each evaluation during training scores; the best weights are
    chosen by them. The whole part is scored at the end. 0: the whole part every time. None: 16,384."""

    watch: Literal["heads"] | None = None
    """What is measured at every evaluation, beside the loss, and moves nothing. heads: on random tokens read twice, the
    induction and previous-token scores of the best head, and by how many nats a decoder's loss is less in the second
    copy. None: nothing."""

    patience: Annotated[int, Ge(0), Unit("evaluations")] = 0
    """Early stopping after this many evaluations without a better loss; 0: never."""

    save_every: Annotated[int, Ge(0), Unit("steps")] = 250
    """Steps between checkpoints; 0: only at the end."""

    keep_checkpoints: Annotated[int, Ge(1), Unit("checkpoints")] = 1
    """How many of the last checkpoints to keep; wsd also keeps the last one before its decay."""

    keep_every: Annotated[int, Ge(1), Unit("steps")] | None = None
    """Keep the weights of every such step as well, from step 0 on, to look at as training went; training goes on from
    none of them. None: of no step."""

    average_checkpoints: Annotated[int, Ge(0), Unit("checkpoints")] = 0
    """Checkpoint averaging: at the end, score the mean weights of this many last checkpoints, and keep them if they are
    better; 0: do not."""

    log_every: Annotated[int, Ge(1), Unit("steps")] = 10
    """Steps between reports of the loss."""

    init: Annotated[str, MinLen(1)] | None = None
    """A run with whose weights and tokenizer the training begins, instead of new ones."""

    adapter: Literal["lora"] | None = None
    """lora: train small matrices beside those of the layers of the run in `init`, and nothing else (LoRA, Hu et al.
    2021); what is kept as the run's weights is merged. None: train all weights."""

    adapter_rank: Annotated[int, Ge(1)] = 8
    """Rank r of an adapter's matrices A and B; at most that of the smallest matrix beside which they stand."""

    adapter_scale: Annotated[float, Gt(0)] = 16.0
    """α of an adapter: α/r · B A is added to a matrix."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the initial weights, the order of the data, masks and dropout."""

    device: Device = "auto"
    """auto: CUDA, else CPU."""

    threads: Annotated[int, Ge(0), Unit("threads")] = 0
    """CPU threads; 0: one for each core that is free when the run begins, or a single one if that is faster."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """bfloat16 is mixed precision: autocast over float32 weights. auto: bfloat16 on a GPU that has it, and on a CPU
    with bfloat16 matrix units from d_model 128 on; else float32."""

    attention: AttentionPath = "auto"
    """fused: PyTorch's kernel. rows: the formula for one sequence at a time, whose scores then stay in the processor's
    cache. auto: rows where that is faster (docs/benchmarks.md), else fused."""

    compile: Compile = "auto"
    """Whether torch.compile compiles the model before the training. auto: on a CUDA GPU."""

    activation_checkpointing: bool = False
    """Gradient checkpointing: a layer's activations are computed again, not kept. A third more work, less memory."""

    parallel: Literal["ddp", "fsdp"] = "ddp"
    """Of several processes, ddp (distributed data parallel): each holds all weights; fsdp (fully sharded): a part."""

    def refusals(self) -> Iterator[Refusal]:
        """Refuse a training in which the learning rate is 0 at every step."""
        steps = min(self.schedule_steps or self.steps, self.steps)
        decays_at_once = self.schedule in ("cosine", "linear")
        if self.schedule == "wsd":
            decays_at_once = round(self.decay_share) == 1
        if steps == 1 and not self.warmup_steps and decays_at_once and not self.final_learning_rate:
            length = "train.steps = 1" if self.steps == 1 else "train.schedule_steps = 1"
            problem = f"With {length}, the learning rate falls to train.final_learning_rate = 0 in the first step, so"
            yield f"{problem} nothing is learned", "use more steps, or --set train.schedule=constant"

    @property
    def rows(self) -> int:
        """Sequences (pairs) of a micro-batch that is not counted in tokens."""
        return self.batch_size or BATCH_SIZE

    @property
    def adapter_factor(self) -> float:
        """α/r."""
        return self.adapter_scale / self.adapter_rank
