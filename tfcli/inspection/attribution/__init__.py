"""What a token's logit owes to each part of a model."""

from dataclasses import dataclass
from typing import Literal

PartKind = Literal["token", "position", "segment", "head", "cross_head", "feed_forward", "bias"]


@dataclass(frozen=True)
class Part:
    """Something that writes into the residual stream: an embedding, a head, a feed-forward, the biases of a layer;
    `layer` is None for what stands outside the layers."""

    kind: PartKind
    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True)
class Contribution:
    """A part, and what the logit owes to it."""

    part: Part
    value: float


@dataclass(frozen=True)
class Attribution:
    """The logit of `token` at a position, less that of `against` where there is one, as a sum. `logit` is the model's
    own number, which the values of `parts` add up to. `best` are the two likeliest tokens. `gated`: the head is not
    linear, and its activation is taken as a factor that stays as it is."""

    tokens: tuple[str, ...]
    position: int
    token: str
    probability: float
    rank: int
    against: str | None
    best: tuple[str, ...]
    logit: float
    parts: tuple[Contribution, ...]
    gated: bool
