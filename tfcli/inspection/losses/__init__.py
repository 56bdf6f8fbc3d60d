"""How surprising each token of a text is."""

from dataclasses import dataclass
from typing import Literal

from tfcli.records.generation import Candidate


@dataclass(frozen=True)
class ScoredToken:
    """A token of a text. `before` and `text` are the characters between it and the token before, and its own; several
    tokens of one character, and special tokens, have their label for a text.

    `loss` is −ln p in nats, `rank` from 1, and `best` the likeliest token; None where nothing is predicted.
    """

    position: int
    token: str
    before: str
    text: str
    loss: float | None
    rank: int | None
    best: Candidate | None


@dataclass(frozen=True)
class Losses:
    """Every token of a text with its loss, and the text's: `loss` is the mean over `scored` tokens, in nats.

    "masked": each token was masked alone, and the loss is the pseudo-loss. `bits_per_byte` is None where the tokens do
    not stand for the whole text. `windows` is how many passages of `context` tokens the text was read in.
    """

    kind: Literal["next", "masked"]
    tokens: tuple[ScoredToken, ...]
    scored: int
    loss: float
    perplexity: float
    bits_per_byte: float | None
    windows: int
    context: int
