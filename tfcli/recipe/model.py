"""``[model]``: the transformer's shape. The one section that layers and models see."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt

from tfcli.errors import UsageError

Architecture = Literal["decoder", "encoder", "encoder-decoder"]
Positions = Literal["sinusoidal", "learned", "rotary"]
Norm = Literal["layernorm", "rmsnorm"]
NormPlacement = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "swiglu"]
AttentionInit = Literal["copying", "normal"]


@dataclass(frozen=True)
class ModelSection:
    """Sizes and variants of one model; every combination that is accepted works."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    architecture: Architecture = "decoder"
    """decoder: next-token model. encoder: masked-token model. encoder-decoder: source to target."""

    vocab_size: Annotated[int, Ge(2)] | None = None
    """Rows of the embedding matrix. None: as many as the tokenizer has ids."""

    max_seq_len: Annotated[int, Ge(2)] = 128
    """The context: the most tokens of one sequence (of each side, for pairs)."""

    d_model: Annotated[int, Ge(1)] = 128
    """Size of a token's vector between layers (D)."""

    num_layers: Annotated[int, Ge(1)] = 4
    """Layers of the stack; of each of the two stacks of an encoder-decoder (L)."""

    num_heads: Annotated[int, Ge(1)] = 4
    """Attention heads (H)."""

    num_kv_heads: Annotated[int, Ge(1)] | None = None
    """Heads of keys and values, shared by groups of query heads (Ainslie et al. 2023). None: num_heads."""

    head_dim: Annotated[int, Ge(1)] | None = None
    """Size of a head's queries, keys and values (Dh). None: d_model / num_heads."""

    d_ff: Annotated[int, Ge(1)] | None = None
    """Inner size of the feed-forward (F). None: 4 d_model; for swiglu 8/3 d_model (as many parameters), in eights."""

    positions: Positions = "rotary"
    """sinusoidal and learned are added to the embeddings; rotary turns queries and keys in every layer."""

    position_base: Annotated[float, Gt(1)] = 10_000.0
    """Base L of the sinusoidal and rotary wavelengths, which run from 2π to 2πL."""

    norm: Norm = "rmsnorm"
    """layernorm (Ba et al. 2016) or rmsnorm (Zhang and Sennrich 2019)."""

    norm_placement: NormPlacement = "pre"
    """pre: X + f(norm(X)). post: norm(X + f(X)), as in Vaswani et al. 2017."""

    norm_eps: Annotated[float, Gt(0)] = 1e-5
    """Added to the variance under the root."""

    activation: Activation = "swiglu"
    """relu (Vaswani et al. 2017), gelu (Hendrycks and Gimpel 2016, exact) or swiglu (Shazeer 2020)."""

    attention_bias: bool = False
    """Biases in the query, key, value and output projections: affine instead of linear maps."""

    feed_forward_bias: bool = False
    """Biases in the feed-forward."""

    tie_embeddings: bool = True
    """One matrix for the input embeddings and the output logits (Press and Wolf 2017)."""

    scale_embeddings: bool | None = None
    """Multiply embeddings by √d_model (Vaswani et al. 2017, 3.4). None: where positions are sinusoidal or
    `attention_init` is copying."""

    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Applied to embeddings, attention weights and each sublayer's output, in training alone."""

    init_std: Annotated[float, Gt(0)] = 0.02
    """Standard deviation of the initial weights; outputs into the residual are divided by √(2 num_layers)."""

    attention_init: AttentionInit = "copying"
    """copying: a head begins by passing on what it attends to (see docs/decisions/0002). normal: as all matrices."""

    def __post_init__(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise UsageError(
                f"model.d_model = {self.d_model} is not divisible by model.num_heads = {self.num_heads}",
                "choose a multiple, or set model.head_dim",
            )
        if self.num_heads % self.kv_heads:
            raise UsageError(
                f"model.num_heads = {self.num_heads} is not divisible by model.num_kv_heads = {self.kv_heads}",
                "let each key-value head serve equally many query heads",
            )
        if self.positions == "rotary" and self.size_per_head % 2:
            raise UsageError(
                f"Rotary positions turn pairs of dimensions, and the head size {self.size_per_head} is odd",
                "choose an even model.head_dim, or model.positions = 'sinusoidal'",
            )

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_kv_heads or self.num_heads

    @property
    def size_per_head(self) -> int:
        """Dh."""
        return self.head_dim or self.d_model // self.num_heads

    @property
    def inner_size(self) -> int:
        """F."""
        if self.d_ff:
            return self.d_ff
        if self.activation == "swiglu":
            return -(-(8 * self.d_model // 3) // 8) * 8
        return 4 * self.d_model

    @property
    def embedding_scale(self) -> float:
        """What embeddings are multiplied by."""
        scaled = self.scale_embeddings
        if scaled is None:
            scaled = self.positions == "sinusoidal" or self.attention_init == "copying"
        return self.d_model**0.5 if scaled else 1.0

    @property
    def objective(self) -> Literal["clm", "mlm", "seq2seq"]:
        """What this architecture is trained on: causal, masked, or pairs."""
        return {"decoder": "clm", "encoder": "mlm", "encoder-decoder": "seq2seq"}[self.architecture]  # type: ignore[return-value]
