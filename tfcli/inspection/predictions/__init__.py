"""What a model predicts at every position of a text."""

from dataclasses import dataclass
from typing import Literal

from tfcli.records.generation import Candidate


@dataclass(frozen=True)
class Prediction:
    """What is predicted at one position: the likeliest tokens, and how the true one fares.

    `read` stands there; `answer` is right there, with its `rank` from 1 and its `probability`, None where nobody knows.
    `entropy` is that of the whole distribution, in nats.
    """

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
