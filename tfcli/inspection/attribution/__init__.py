"""What a prediction owes to each part of a model, and to each token that is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

PartKind = Literal["token", "position", "segment", "head", "cross_head", "feed_forward", "bias"]


@dataclass(frozen=True)
class Part:
    """Something that writes into the residual stream: an embedding, a head, a feed-forward, the biases of a layer;
    `layer` is None for what stands outside the layers."""

    kind: PartKind
    layer: int | None = None
    head: int | None = None


_OUTSIDE = {"token": "token embedding", "position": "position", "segment": "segment", "bias": "other biases"}
CHANCE = 0.05  # a larger share of random orders that do as well is chance


def part_name(part: Part) -> str:
    """A part in words."""
    if part.layer is None:
        return _OUTSIDE[part.kind]
    inside = {"head": f"head {part.head}", "cross_head": f"cross head {part.head}", "feed_forward": "MLP"}
    return f"layer {part.layer} {inside.get(part.kind, 'biases')}"


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


InputMethod = Literal["gradient", "integrated-gradients", "occlusion", "rollout", "value-weighted"]


@dataclass(frozen=True, eq=False)
class InputAttribution:
    """What the prediction of `direct` owes to each of N tokens that are `read`, by M `methods`. `value` is explained,
    log p(token) or the difference of two logits; `of_baseline` is that of the text with the token `baseline` in every
    place but special tokens'. `gaps`: what integrated gradients miss of their difference, as a share of it, with 64,
    128 … steps; the last are in `values`, (M, N). `agreement`, (M, M): rank correlations over replaced tokens, where
    95 % of unrelated orders stay within `unrelated`. `curves`, (2, M, P): p(token) or the difference with `counts`
    tokens replaced, or put back, the largest first; `areas`, (2, M), their means; `as_good`, the share of random orders
    with one as low, or high. `random`, (P,): the mean of their curves (backwards: put back); `spread`: the mean of
    their areas, and what an area must be below, or above, to be better than chance."""

    direct: Attribution
    value: float
    of_baseline: float
    baseline: str
    sides: tuple[str, ...]
    read: tuple[str, ...]
    methods: tuple[InputMethod, ...]
    values: Array
    gaps: tuple[float, ...]
    agreement: Array
    unrelated: float
    counts: tuple[int, ...]
    curves: Array
    areas: Array
    as_good: Array
    random: Array
    spread: tuple[float, ...]
