"""What a model loses without a part: every head, MLP and layer replaced in turn."""

from dataclasses import dataclass
from typing import Literal

from tfcli.inspection.attention import AttentionKind
from tfcli.records.evaluation import Interval

Replacement = Literal["zero", "mean", "resample"]
OWN = "its own translation"


@dataclass(frozen=True)
class AblatedPart:
    """A part, and what changes without it: the loss in nats per token, with the interval of its mean over documents; of
    one text, the difference of two logits and the log-probability of the true token as well.

    `head`: of a head alone, whose attention is `kind`; an MLP or a whole layer has a `side`."""

    part: Literal["head", "MLP", "layer"]
    side: Literal["encoder", "decoder"]
    layer: int
    kind: AttentionKind | None = None
    head: int | None = None
    loss: float | None = None
    interval: Interval | None = None
    difference: float | None = None
    log_probability: float | None = None


def part_name(part: AblatedPart, *, sides: bool) -> str:
    """A part in words."""
    of = "cross-attention " if part.kind == "cross" else f"{part.side} " * sides
    return f"{of}{part.part} {part.layer}" + ("" if part.head is None else f".{part.head}")


@dataclass(frozen=True)
class AblatedText:
    """What is asked of one text: the logit of `token` less that of `against` at a position, the true token there,
    where the text is `OWN` that of the translation, which is likely by construction."""

    tokens: tuple[str, ...]
    position: int
    token: str
    against: str
    true: str | None
    difference: float
    log_probability: float | None


@dataclass(frozen=True)
class Ablation:
    """Parts in the order of layers, `replaced` each by the same thing; without any, the loss is `loss`, in nats per
    token. `source`: what means and other texts are taken from. `rounding`: what moves a figure where nothing is
    changed; a smaller effect is 0."""

    replaced: Replacement
    measured_on: str
    source: str | None
    documents: int
    loss: float | None
    text: AblatedText | None
    parts: tuple[AblatedPart, ...]
    rounding: float
