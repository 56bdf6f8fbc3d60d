"""A steering vector: the direction between two sets of texts, what it does to generation, and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass

from tfcli.records.evaluation import Interval

FIGURES = {"loss": "loss, nats", "to_tokens": "to-tokens, %", "from_tokens": "from-tokens, %"}
"""Means over the positions of texts: the loss, and what probability the tokens of either set get together."""


@dataclass(frozen=True)
class Change:
    """A figure, and its difference from the unsteered model's with a 95 % interval over texts; None: too few."""

    value: float
    change: float
    interval: Interval | None


@dataclass(frozen=True)
class Steered:
    """What a model writes at a strength, and its `FIGURES`."""

    strength: float
    text: str
    loss: Change
    to_tokens: Change
    from_tokens: Change


@dataclass(frozen=True)
class Steering:
    """A direction behind a layer, as long as `norm`, where the residual stream has `stream_norm`.

    Attributes:
        texts: of --from and of --to; `tokens` are those that more texts of either set have.
        chance: from where to where the figures change with random directions as long, at strength 1.
        separation: the share of pairs of held-out texts of which that of --to lies further along, and from where to
            where it comes to lie when texts are shuffled between the sets; None with few texts.
    """

    at: str
    stack: str
    texts: tuple[int, int]
    norm: float
    stream_norm: float
    tokens: tuple[tuple[str, ...], ...]
    measured_on: str
    prompt: str
    strengths: tuple[Steered, ...]
    chance: Mapping[str, Interval]
    separation: tuple[float, Interval] | None
