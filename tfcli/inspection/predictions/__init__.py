"""What a model predicts: at every position of a text, after every layer (the logit lens), and each token's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tfcli.records.generation import Candidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Prediction:
    """What is predicted at one position, where `read` stands: the likeliest tokens, and the `answer` that is right,
    with its `rank` from 1, None where nobody knows; `entropy` is that of the whole distribution, in nats."""

    position: int
    read: str
    answer: str | None
    rank: int | None
    probability: float | None
    entropy: float
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Predictions:
    """Every position of a text, and the one to look at: "next" tokens are predicted, or "masked" ones."""

    kind: Literal["next", "masked"]
    position: int
    predictions: tuple[Prediction, ...]


@dataclass(frozen=True)
class Lens:
    """The logit lens on a text. Depth 0 is what enters the first layer, depth l what leaves layer l − 1, so that the
    last row is the model's own prediction. `top[depth][position]` is the likeliest token there, `probabilities` (L + 1,
    T) its probability, and `final` that of the token which the model predicts in the end. `settled[position]` is the
    depth from which on that token stays the likeliest. `candidates[depth]` are the likeliest at `position`."""

    kind: Literal["next", "masked"]
    tokens: tuple[str, ...]
    answers: tuple[str | None, ...]
    top: tuple[tuple[str, ...], ...]
    probabilities: NDArray[np.float32]
    final: NDArray[np.float32]
    settled: tuple[int, ...]
    position: int
    candidates: tuple[tuple[Candidate, ...], ...]


@dataclass(frozen=True)
class ScoredToken:
    """A token of a text. `before` and `text` are the characters between it and the token before, and its own; several
    tokens of one character, and special tokens, have their label for a text. `loss` is −ln p in nats, `rank` from 1,
    and `best` the likeliest token; None where nothing is predicted."""

    position: int
    token: str
    before: str
    text: str
    loss: float | None
    rank: int | None
    best: Candidate | None


@dataclass(frozen=True)
class Losses:
    """Every token of a text with its loss, and the text's: `loss` is the mean over `scored` tokens, in nats. "masked":
    each token was masked alone, and the loss is the pseudo-loss. `bits_per_byte` is None where the tokens do not stand
    for the whole text. `windows` is how many passages of `context` tokens the text was read in."""

    kind: Literal["next", "masked"]
    tokens: tuple[ScoredToken, ...]
    scored: int
    loss: float
    perplexity: float
    bits_per_byte: float | None
    windows: int
    context: int
