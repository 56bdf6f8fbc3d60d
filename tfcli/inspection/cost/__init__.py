"""What a model costs: operations of its matrix products, parameters, bytes. Bytes are of float32."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

PartName = Literal["embeddings", "projections", "scores", "mixing", "output", "feed_forward", "head", "norms"]


@dataclass(frozen=True)
class CostPart:
    """A part of all layers over one batch; its products, or the look-up of embeddings, give `bytes_made`."""

    name: PartName
    flops: int
    parameters: int
    bytes_made: int


@dataclass(frozen=True)
class CostAtLength:
    """One batch of sequences of `length` tokens (of both sides, for pairs), every query with every key; projections
    are those of queries, keys, values and W^o. visible_flops: without what the mask hides. cache_bytes: keys and values
    that generation remembers; 0 for an encoder."""

    length: int
    projections: int
    feed_forward: int
    scores_and_mixing: int
    head: int
    visible_flops: int
    bytes_made: int
    cache_bytes: int
    predicted_seconds: float | None = None
    seconds: float | None = None

    @property
    def flops(self) -> int:
        """Of all parts."""
        return self.projections + self.feed_forward + self.scores_and_mixing + self.head


@dataclass(frozen=True)
class CostRecord:
    """The cost of one forward pass. `counted_flops` are PyTorch's own count of it, `products_a_second` the FLOPs a
    second of a large matrix product on this machine; None: not measured. `num_decoder_layers`: 0 of one stack.

    flops_a_token (a) and flops_a_pair (b): of all layers, so that N tokens cost a N in projections and feed-forwards
    and b N² in scores and mixing; equal at N = `crossover`, a / b.
    """

    json_keys: ClassVar[tuple[Any, ...]] = (..., "flops", "crossover")
    architecture: str
    d_model: int
    num_layers: int
    num_decoder_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    d_ff: int
    is_gated: bool
    has_projections: bool
    sequences: int
    length: int
    parameters: int
    parts: tuple[CostPart, ...]
    counted_flops: int
    lengths: tuple[CostAtLength, ...]
    flops_a_token: int
    flops_a_pair: int
    products_a_second: float | None = None

    @property
    def flops(self) -> int:
        """Of all parts at `length`."""
        return sum(part.flops for part in self.parts)

    @property
    def crossover(self) -> float:
        """N from which on scores and mixing cost more than projections and feed-forwards."""
        return self.flops_a_token / self.flops_a_pair


@dataclass(frozen=True)
class HeadCount:
    """One attention with so many heads of size D / H: its matrix products, and the exponentials of its softmax."""

    num_heads: int
    head_dim: int
    parameters: int
    flops: int
    exponentials: int
    seconds: float


@dataclass(frozen=True)
class HeadCosts:
    """The same attention cut into more and more heads, measured in turns."""

    d_model: int
    length: int
    sequences: int
    counts: tuple[HeadCount, ...]


@dataclass(frozen=True)
class MixerCost:
    """A layer that mixes N tokens. steps: that wait for each other. path: steps between the two tokens furthest apart.
    another_length: whether a layer made for N tokens takes N + 1, as tried."""

    parameters: int
    flops: int
    steps: int
    path: int
    another_length: bool


@dataclass(frozen=True)
class AgainstAtLength:
    """Attention and the other layer on N tokens."""

    length: int
    attention: MixerCost
    other: MixerCost


@dataclass(frozen=True)
class AgainstRecord:
    """Self-attention beside a fully connected layer over all tokens, or beside a recurrent one."""

    other: Literal["dense", "rnn"]
    d_model: int
    num_heads: int
    lengths: tuple[AgainstAtLength, ...]
