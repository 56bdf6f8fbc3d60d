"""Text that a model made."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Generated:
    """A continuation (decoder) or a translation (encoder-decoder).

    `text` and `token_ids` are the continuation alone; `score` is the sum of the log-probabilities (nats) of its
    tokens under the model itself, before temperature and filters.
    """

    prompt: str
    text: str
    token_ids: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class Candidate:
    """A token for a mask; `probability` is 0 to 1."""

    token: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """Every mask of a prompt with its best candidates, best first, and the prompt with the best of each put in."""

    prompt: str
    predictions: tuple[tuple[Candidate, ...], ...]
    text: str
