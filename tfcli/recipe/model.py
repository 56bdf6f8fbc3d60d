"""``[model]``: sizes and variants of the transformer. The one section of a recipe that layers and models see."""

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, Unit

from tfcli.recipe import Refusal, Section

Architecture = Literal["decoder", "encoder", "encoder-decoder"]
Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "t5", "none"]
PositionMerge = Literal["add", "concat", "query_key"]
PositionLayout = Literal["interleaved", "halves"]
PositionScaling = Literal["linear", "dynamic", "yarn", "llama3"]
Norm = Literal["layernorm", "rmsnorm"]
NormPlacement = Literal["pre", "post"]
AttentionScore = Literal["scaled_dot", "dot", "additive", "parameter_free"]
Activation = Literal["relu", "relu2", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh"]
WeightPrecision = Literal["float32", "bfloat16", "int8"]
"""Of the weights at inference: as trained (float32), all in bfloat16, or quantization of the matrices to int8."""
HeadKind = Literal["linear", "transform", "none"]
Initialization = Literal["copying", "gpt2", "bert", "vaswani2017", "t5"]

LARGEST_SIZE = 1 << 24  # no published model has a larger one: contexts reach ten million tokens
MOST_LAYERS = 4096

GATED: frozenset[Activation] = frozenset({"swiglu", "geglu", "geglu_tanh"})  # in the feed-forward, a third matrix
JOINED_TO_EMBEDDINGS: frozenset[Positions] = frozenset({"sinusoidal", "learned"})
"""Positions that are vectors beside the tokens' own. The others act on the scores inside attention."""


@dataclass(frozen=True)
class ModelSection(Section):
    """Sizes and variants of one model; every combination that is accepted works."""

    architecture: Architecture = "decoder"
    """decoder: next-token model. encoder: masked-token model. encoder-decoder: source to target."""

    vocab_size: Annotated[int, Ge(2), Le(LARGEST_SIZE), Unit("ids")] | None = None
    """Rows of the embedding matrix. None: as many as the tokenizer has ids."""

    max_seq_len: Annotated[int, Ge(2), Le(LARGEST_SIZE), Unit("tokens")] = 128
    """The context: the most tokens of one sequence (of each side, for pairs)."""

    d_model: Annotated[int, Ge(1), Le(LARGEST_SIZE), Unit("dimensions")] = 128
    """Size of a token's vector between layers (D)."""

    num_layers: Annotated[int, Ge(1), Le(MOST_LAYERS), Unit("layers")] = 4
    """Layers of the stack; of each of the two stacks of an encoder-decoder (L)."""

    num_decoder_layers: Annotated[int, Ge(1), Le(MOST_LAYERS), Unit("layers")] | None = None
    """Layers of the decoder of an encoder-decoder. None: num_layers."""

    num_heads: Annotated[int, Ge(1), Le(LARGEST_SIZE), Unit("heads")] = 4
    """Attention heads (H)."""

    num_kv_heads: Annotated[int, Ge(1), Le(LARGEST_SIZE), Unit("heads")] | None = None
    """Heads of keys and values. Fewer than num_heads: grouped-query attention (Ainslie et al. 2023); 1: multi-query
    attention. None: num_heads."""

    head_dim: Annotated[int, Ge(1), Le(LARGEST_SIZE), Unit("dimensions")] | None = None
    """Size of a head's queries, keys and values (Dh). None: d_model / num_heads."""

    d_ff: Annotated[int, Ge(0), Le(LARGEST_SIZE), Unit("dimensions")] | None = None
    """Inner size of the feed-forward network (F). 0: there is none, nor its norm: an attention-only model. None: 4
    · d_model. A gated one has a third matrix and takes 8/3 · d_model, rounded up to a multiple of 8, so that it has
    about as many parameters."""

    positions: Positions = "rotary"
    """Positional encoding. sinusoidal (Vaswani et al. 2017, 3.5) and learned (Gehring et al. 2017) join the embeddings;
    rotary (Su et al. 2021), alibi (Press et al. 2022), t5 (Raffel et al. 2020, 2.1) act on scores. none: no order."""

    position_merge: PositionMerge = "add"
    """How sinusoidal and learned positions join. add: to the embeddings. concat: beside the embeddings. query_key:
    added in every layer to what queries and keys are projected from, and not to values."""

    position_layout: PositionLayout | None = None
    """Which dimensions share a wavelength: neighbours (interleaved) or those half the size apart (halves). None: for
    sinusoidal interleaved (Vaswani et al. 2017; Marian: halves), for rotary halves (Llama; Su et al.: interleaved)."""

    position_base: Annotated[float, Gt(1)] = 10_000.0
    """Base L of the sinusoidal and rotary wavelengths, which run from 2π to 2πL."""

    position_offset: Annotated[int, Ge(0), Le(LARGEST_SIZE), Unit("positions")] = 0
    """Number of the first position: sinusoidal and learned tables are read from this row on (2 in BART)."""

    position_scaling: Annotated[float, Gt(0)] = 1.0
    """Position n is encoded as position n / position_scaling, which stretches a trained context (Chen et al. 2023)."""

    position_scaling_kind: PositionScaling = "linear"
    """Which wavelengths of rotary positions are stretched by position_scaling. linear: all. llama3 (Grattafiori et al.
    2024) and yarn (Peng et al. 2023): those that turn seldom within the trained context. dynamic (Peng et al. 2023,
    B.2): all of them, but only where a text is longer than max_seq_len, and more for a longer text."""

    position_trained_len: Annotated[int, Ge(2), Le(LARGEST_SIZE), Unit("tokens")] | None = None
    """Trained context, in which llama3 and yarn count how often a wavelength turns. None: max_seq_len."""

    position_low_turns: Annotated[float, Gt(0)] = 1.0
    """llama3 and yarn stretch a wavelength in full that turns less often than this in the trained context."""

    position_high_turns: Annotated[float, Gt(0)] | None = None
    """llama3 and yarn leave a wavelength alone that turns more often than this. None: 4 for llama3, 32 for yarn."""

    position_gain: Annotated[float, Gt(0)] | None = None
    """Factor of turned queries and keys (Peng et al. 2023, 3.4). None: 1 + ln(position_scaling) / 10 for yarn, or 1."""

    position_dim: Annotated[int, Ge(1), Le(LARGEST_SIZE), Unit("dimensions")] | None = None
    """Dimensions that positions take. Concatenated positions take them from d_model (None: a quarter of it); rotary
    positions rotate so many of a head (None: all; a quarter in Black et al. 2022)."""

    position_buckets: Annotated[int, Ge(4), Le(LARGEST_SIZE), Unit("buckets")] = 32
    """Buckets of distances for t5 positions, each with a learned bias (relative position bias)."""

    position_max_distance: Annotated[int, Ge(2), Le(LARGEST_SIZE), Unit("tokens")] = 128
    """All distances from this one on share the last bucket of t5 positions."""

    token_types: Annotated[int, Ge(0), Le(LARGEST_SIZE), Unit("rows")] = 0
    """Rows of a second embedding, which tells segments of a text apart; 0: none (2 in Devlin et al. 2019, 3)."""

    embedding_norm: bool = False
    """Normalise the sum of all embeddings before the first layer, as BERT and BART do."""

    norm: Norm = "rmsnorm"
    """layernorm (Ba et al. 2016) or rmsnorm (Zhang and Sennrich 2019)."""

    norm_affine: bool = True
    """Learned gains (and biases) after normalising; without them see Xu et al. 2019."""

    norm_bias: bool | None = None
    """A learned bias beside the gain of a norm. None: layernorm has one where norm_affine is on."""

    norm_placement: NormPlacement = "pre"
    """pre: X + f(norm(X)). post: norm(X + f(X)), as in Vaswani et al. 2017."""

    residuals: bool = True
    """Residual connections around attention and feed-forward. Without them a layer is f(norm(X)) or norm(f(X))."""

    parallel_residual: bool = False
    """Attention and feed-forward read the same vectors, and both are added: X + f(norm(X)) + g(norm'(X)) (Wang and
    Komatsuzaki 2021; Black et al. 2022, 2.1)."""

    norm_eps: Annotated[float, Gt(0)] = 1e-5
    """Added to the variance under the root."""

    attention_score: AttentionScore = "scaled_dot"
    """scaled_dot: Q Kᵀ / √Dh. dot: Q Kᵀ, as in T5. additive: v · tanh(q + k) (Bahdanau et al. 2015, A.1.2).
    parameter_free: X Xᵀ, without any projection (Bishop and Bishop 2024, equation 12.5)."""

    attention_bias: bool = False
    """Biases in the query, key, value and output projections: affine instead of linear maps."""

    attention_output_bias: bool | None = None
    """A bias in the output projection. None: as attention_bias says."""

    query_key_norm: bool = False
    """Normalise each head's queries and keys, which bounds scores (Henry et al. 2020; Dehghani et al. 2023)."""

    sliding_window: Annotated[int, Ge(1), Le(LARGEST_SIZE), Unit("tokens")] | None = None
    """Sliding window: a token attends to this many tokens at most, itself and those just before it (in an encoder, also
    as many after it; Beltagy et al. 2020). None: to all."""

    attention_softcap: Annotated[float, Gt(0)] | None = None
    """Scores become c · tanh(score / c), which keeps them within ± c (Gemma Team 2024). None: as they are."""

    activation: Activation = "swiglu"
    """relu (Vaswani et al. 2017), relu2 (squared; So et al. 2021), gelu (Hendrycks and Gimpel 2016; exact, or by tanh),
    silu; gated: swiglu, geglu, geglu_tanh (Shazeer 2020)."""

    feed_forward_bias: bool = False
    """Biases in the feed-forward."""

    tie_embeddings: bool = True
    """Weight tying: one matrix for the input embeddings and the output logits (Press and Wolf 2017)."""

    share_embeddings: bool = True
    """One embedding matrix for both sides of an encoder-decoder; with tie_embeddings, three-way tying."""

    scale_embeddings: bool | None = None
    """Multiply embeddings by √d_model (Vaswani et al. 2017, 3.4). None: if sinusoidal, or initialised by copying."""

    scale_logits: bool = False
    """Divide the vectors that the output head reads by √d_model, as T5 does where its embeddings are tied."""

    head: HeadKind = "linear"
    """linear: one matrix. transform: dense, activation and norm before it (Devlin et al. 2019). none: an encoder that
    predicts no tokens."""

    head_bias: bool = False
    """A bias for every logit."""

    labels: tuple[str, ...] | None = None
    """What a task head tells apart (train.task): a row of its matrix each. None: the training part's labels, sorted."""

    dropout: Annotated[float, Ge(0), Lt(1), Unit("share")] = 0.0
    """Applied to each sublayer's output (residual dropout), in training alone."""

    embedding_dropout: Annotated[float, Ge(0), Lt(1), Unit("share")] | None = None
    """Applied to the embeddings. None: dropout."""

    attention_dropout: Annotated[float, Ge(0), Lt(1), Unit("share")] | None = None
    """Applied to attention weights. None: dropout."""

    activation_dropout: Annotated[float, Ge(0), Lt(1), Unit("share")] = 0.0
    """Applied inside the feed-forward, after the activation."""

    initialization: Initialization = "copying"
    """Initialization of the weights, as a paper's code has it. gpt2: N(0, init_std²), and what writes into the residual
    stream is divided by √(2 num_layers). bert: N(0, init_std²) throughout. vaswani2017: Glorot. t5: by fan-in.
    copying: as gpt2, but a head begins by passing on what it attends to (docs/decisions/0002)."""

    init_std: Annotated[float, Gt(0)] = 0.02
    """Standard deviation of the initial weights, where `initialization` uses one."""

    def refusals(self) -> Iterator[Refusal]:
        """What does not go together."""
        for rules in (_heads, _scores, _positions, _embeddings, _norms, _sides):
            yield from rules(self)

    @property
    def outputs(self) -> int:
        """Logits of the head at a position: one a label, or one an id; the vocabulary is decided."""
        return len(self.labels or range(self.vocab_size or 0))

    @property
    def predicts_tokens(self) -> bool:
        """Whether its head gives a logit for every token."""
        return self.head != "none" and not self.labels

    @property
    def decoder_layers(self) -> int:
        """Layers of the stack that generates: of the decoder, or of the only one there is."""
        return self.num_decoder_layers or self.num_layers

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_kv_heads or self.num_heads

    @property
    def size_per_head(self) -> int:
        """Dh."""
        return self.head_dim or self.d_model // self.num_heads

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward has a gate."""
        return self.activation in GATED

    @property
    def inner_size(self) -> int:
        """F."""
        if self.d_ff is not None:
            return self.d_ff
        return -(-(8 * self.d_model // 3) // 8) * 8 if self.is_gated else 4 * self.d_model

    @property
    def layout(self) -> PositionLayout:
        """Which dimensions of sinusoidal and rotary positions share a wavelength."""
        return self.position_layout or ("halves" if self.positions == "rotary" else "interleaved")

    @property
    def turned_size(self) -> int:
        """Dimensions of a head that rotary positions turn."""
        return self.position_dim or self.size_per_head

    @property
    def rotary_gain(self) -> float:
        """What turned queries and keys are multiplied by."""
        if self.position_gain is not None:
            return self.position_gain
        return 1 + 0.1 * max(0.0, math.log(self.position_scaling)) if self.position_scaling_kind == "yarn" else 1.0

    @property
    def turns(self) -> tuple[float, float]:
        """How often a wavelength turns within the trained context where stretching ends and where it begins."""
        usual = 4.0 if self.position_scaling_kind == "llama3" else 32.0
        return self.position_low_turns, self.position_high_turns or usual

    @property
    def concatenated_size(self) -> int:
        """Dimensions of d_model that positions take, 0 where they are not concatenated."""
        joined = self.positions in JOINED_TO_EMBEDDINGS and self.position_merge == "concat"
        return (self.position_dim or max(1, self.d_model // 4)) if joined else 0

    @property
    def position_size(self) -> int:
        """Dimensions of a sinusoidal or learned position."""
        return self.concatenated_size or self.d_model

    @property
    def has_norm_bias(self) -> bool:
        """Whether norms have a bias."""
        return self.norm == "layernorm" and self.norm_affine if self.norm_bias is None else self.norm_bias

    @property
    def has_output_bias(self) -> bool:
        """Whether attention's output projection has a bias."""
        return self.attention_bias if self.attention_output_bias is None else self.attention_output_bias

    @property
    def embedding_scale(self) -> float:
        """What embeddings are multiplied by."""
        usual = self.positions == "sinusoidal" or self.initialization == "copying"
        return self.d_model**0.5 if (usual if self.scale_embeddings is None else self.scale_embeddings) else 1.0

    @property
    def embedding_dropout_rate(self) -> float:
        """Share of the embeddings' numbers dropped in training."""
        return self.dropout if self.embedding_dropout is None else self.embedding_dropout

    @property
    def attention_dropout_rate(self) -> float:
        """Share of the attention weights dropped in training."""
        return self.dropout if self.attention_dropout is None else self.attention_dropout

    @property
    def objective(self) -> Literal["clm", "mlm", "seq2seq"]:
        """What this architecture is trained on: causal, masked, or sequence-to-sequence."""
        return {"decoder": "clm", "encoder": "mlm", "encoder-decoder": "seq2seq"}[self.architecture]  # type: ignore[return-value]


def _heads(model: "ModelSection") -> Iterator[Refusal]:
    if model.head_dim is None and model.d_model % model.num_heads:
        yield f"{model.d_model = } is not divisible by {model.num_heads = }", "choose a multiple, or set model.head_dim"
    if model.num_heads % model.kv_heads:
        yield f"{model.num_heads = } is not divisible by {model.num_kv_heads = }", "choose a divisor of the query heads"


def _scores(model: "ModelSection") -> Iterator[Refusal]:
    if model.attention_score == "additive" and model.positions == "rotary":
        problem = "Rotary positions show in dot products, and model.attention_score = 'additive' takes none"
        yield problem, "choose other model.positions, or model.attention_score = 'scaled_dot'"
    if model.attention_score != "parameter_free":
        return
    if model.kv_heads != model.num_heads or model.size_per_head * model.num_heads != model.d_model:
        yield "Parameter-free attention has no projections to resize", "leave model.num_kv_heads and model.head_dim out"
    if model.query_key_norm:
        yield "Parameter-free attention has no queries and keys to normalise", "leave model.query_key_norm out"
    if model.attention_bias or model.attention_output_bias:
        yield "Parameter-free attention has no biases", "leave model.attention_bias and model.attention_output_bias out"


def _positions(model: "ModelSection") -> Iterator[Refusal]:
    positions = model.positions
    if positions == "rotary":
        yield from _rotation(model)
    takers: dict[str, Set[str]] = {"merge offset": JOINED_TO_EMBEDDINGS, "dim": JOINED_TO_EMBEDDINGS | {"rotary"}}
    takers |= {"layout base scaling": {"sinusoidal", "rotary"}}
    takers |= {"scaling_kind trained_len low_turns high_turns gain": {"rotary"}, "buckets max_distance": {"t5"}}
    for names, who in takers.items():
        remedy = f"leave it out, or choose {' or '.join(sorted(who))} positions"
        for given in _given(model, names) if positions not in who else ():
            yield f"{given} says nothing about {model.positions = }", remedy
    if model.position_dim is not None and positions != "rotary" and model.position_merge != "concat":
        yield f"{model.position_dim = } is for concatenation", "leave it out, or set model.position_merge = 'concat'"
    if model.concatenated_size >= model.d_model:
        yield f"model.position_dim = {model.concatenated_size} leaves tokens none of {model.d_model = }", "choose less"
    if positions == "sinusoidal" and model.layout == "halves" and model.position_size % 2:
        problem = f"Half sines and half cosines need an even size, and {model.position_size} is odd"
        yield problem, "choose an even one, or model.position_layout = 'interleaved'"
    if positions == "t5":
        yield from _buckets(model)


def _rotation(model: "ModelSection") -> Iterator[Refusal]:
    if model.position_dim is None and model.size_per_head % 2:
        problem = f"Rotary positions turn pairs of dimensions, and the head size {model.size_per_head} is odd"
        yield problem, "choose an even model.head_dim, or model.positions = 'sinusoidal'"
    if model.turned_size % 2 or model.turned_size > model.size_per_head:
        problem = f"model.position_dim = {model.turned_size} of a head of {model.size_per_head}"
        yield f"{problem} cannot be turned in pairs", "choose an even number of at most the head size"
    kind = model.position_scaling_kind
    by_turns, (low, high) = kind in ("llama3", "yarn"), model.turns
    for given in _given(model, "trained_len low_turns high_turns") if not by_turns else ():
        yield f"{given} says nothing about {model.position_scaling_kind = }", "leave it out, or choose llama3 or yarn"
    if by_turns and low >= high:
        yield f"model.position_low_turns = {low:g} is not below {high:g} high ones", "choose fewer"
    if kind == "dynamic" and model.turned_size < 4:
        yield "A single pair of dimensions has no base that could grow", "choose another model.position_scaling_kind"


def _buckets(model: "ModelSection") -> Iterator[Refusal]:
    buckets = model.position_buckets
    if buckets % 2 and model.architecture != "decoder":
        yield f"model.position_buckets = {buckets} cannot be halved between before and after", "choose an even number"
    near = buckets // 2
    if model.position_max_distance <= near:
        problem = f"model.position_max_distance = {model.position_max_distance} lies within the {near} distances"
        yield f"{problem} that have a bucket each", f"choose more than {near}, or fewer model.position_buckets"


def _embeddings(model: "ModelSection") -> Iterator[Refusal]:
    if model.concatenated_size and model.tie_embeddings and model.head != "none":
        own = f"embeddings have {model.d_model - model.concatenated_size} numbers"
        yield f"Concatenated, {own} and the head reads {model.d_model}", "set model.tie_embeddings = false"
    if model.token_types and model.architecture != "encoder":
        yield f"{model.token_types = } is for an encoder", "leave it out, or choose model.architecture = 'encoder'"
    if model.head == "none" and model.architecture == "encoder-decoder":
        yield f"{model.head = } leaves an encoder-decoder without predictions", "choose 'linear' or 'transform'"
    if model.labels is not None:
        if len(set(model.labels)) != max(2, len(model.labels)):
            yield "model.labels must be two names or more, each once", "leave it out: the data has them"
        if model.tie_embeddings or model.head != "linear" or model.architecture == "encoder-decoder":
            problem = "model.labels is for a matrix of its own on an encoder or a decoder"
            yield problem, "set model.head = 'linear' and model.tie_embeddings = false, or leave it out"
    if model.head == "none" and (model.head_bias or model.scale_logits):
        yield "model.head = 'none' has no logits", "leave model.head_bias and model.scale_logits out"


def _norms(model: "ModelSection") -> Iterator[Refusal]:
    if not model.inner_size and (model.feed_forward_bias or not model.residuals):
        given = "model.feed_forward_bias = true" if model.feed_forward_bias else "model.residuals = false"
        yield f"model.d_ff = 0 leaves no feed-forward network for {given}", "leave one of the two out"
    if model.norm_bias and (model.norm == "rmsnorm" or not model.norm_affine):
        why = "rmsnorm subtracts no mean" if model.norm == "rmsnorm" else "model.norm_affine is off"
        yield f"model.norm_bias = true adds a bias, and {why}", "leave it out"
    if model.parallel_residual and model.norm_placement == "post":
        yield f"Sublayers of model.parallel_residual share a sum: {model.norm_placement = } norms each", "choose 'pre'"
    if model.parallel_residual and not model.residuals:
        yield "model.parallel_residual shares a sum that model.residuals = false leaves out", "set one of the two"
    if model.parallel_residual and model.architecture == "encoder-decoder":
        yield "model.parallel_residual leaves cross-attention no place between the two others", "leave it out"


def _sides(model: "ModelSection") -> Iterator[Refusal]:
    if model.architecture == "encoder-decoder":
        return
    if model.num_decoder_layers is not None:
        yield f"{model.num_decoder_layers = } is for an encoder-decoder", "set model.num_layers instead"
    if not model.share_embeddings:
        yield f"A {model.architecture} has one side, so model.share_embeddings says nothing", "leave it out"


def _given(model: "ModelSection", names: str) -> Iterator[str]:
    """Settings of positions, as they are written, that are not left at their default."""
    for name in (f"position_{one}" for one in names.split()):
        if (value := getattr(model, name)) != getattr(ModelSection, name):
            yield f"model.{name} = {value!r}"
