"""What a model costs: operations of its matrix products, parameters, bytes. Bytes are of float32."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

PartName = Literal["embeddings", "projections", "scores", "mixing", "output", "feed_forward", "head", "norms"]
Other = Literal["dense", "rnn"]  # layer beside attention


@dataclass(frozen=True)
class CostPart:
    """A part of all layers over one batch; its products, or the look-up of embeddings, give `bytes_made`."""

    name: PartName
    flops: int
    parameters: int
    bytes_made: int


@dataclass(frozen=True)
class CostAtLength:
    """One batch of sequences of `length` tokens (of both sides, for pairs), every query with every key."""

    length: int
    projections: int  # of queries, keys, values, and W^o
    feed_forward: int
    scores_and_mixing: int
    head: int
    visible_flops: int  # without what the mask hides
    bytes_made: int
    cache_bytes: int  # keys and values that generation remembers; 0 for an encoder
    predicted_seconds: float | None = None
    seconds: float | None = None

    @property
    def flops(self) -> int:
        """Of all parts."""
        return self.projections + self.feed_forward + self.scores_and_mixing + self.head


@dataclass(frozen=True)
class CostRecord:
    """One forward pass: a N in projections and feed-forwards, b N² in scores and mixing; equal at N = `crossover`."""

    json_keys: ClassVar[tuple[Any, ...]] = (..., "flops", "crossover")
    architecture: str
    d_model: int
    num_layers: int
    num_decoder_layers: int  # 0 of one stack
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
    counted_flops: int  # by PyTorch's own counter
    lengths: tuple[CostAtLength, ...]
    flops_a_token: int  # a
    flops_a_pair: int  # b
    products_a_second: float | None = None  # FLOPs a second of a large matrix product here; None: not measured

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
    """A layer that mixes N tokens."""

    parameters: int
    flops: int
    steps: int  # that wait for each other
    path: int  # steps between the two tokens furthest apart
    another_length: bool  # whether a layer made for N tokens takes N + 1, as tried


@dataclass(frozen=True)
class AgainstAtLength:
    """Attention and the other layer on N tokens."""

    length: int
    attention: MixerCost
    other: MixerCost


@dataclass(frozen=True)
class AgainstRecord:
    """Self-attention beside a fully connected layer over all tokens, or beside a recurrent one."""

    other: Other
    d_model: int
    num_heads: int
    lengths: tuple[AgainstAtLength, ...]
