"""A steering vector: the direction between two sets of texts, what it does to generation, and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass

from tfcli.records.evaluation import Interval
from tfcli.records.generation import Finish

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
    """What a model writes at a strength, its `FIGURES`, and why the text ends; None: it fills masks."""

    strength: float
    text: str
    loss: Change
    to_tokens: Change
    from_tokens: Change
    finish: Finish | None = None


@dataclass(frozen=True)
class Steering:
    """A direction as long as `norm`, where the residual stream has `stream_norm`, between so many `texts` of --from and
    of --to; `tokens` are in more texts of either set. `chance`: from where to where the figures change at strength 1
    with random directions as long. `separation`: the share of pairs of held-out texts of which that of --to lies
    further along, and from where to where it lies with texts shuffled between the sets; None with few."""

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
