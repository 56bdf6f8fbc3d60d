"""Text that a model made, and how it came about."""

from dataclasses import dataclass
from typing import Literal

Finish = Literal["end", "stop", "length", "context"]  # the end token, a stop text, max_new_tokens, or a full context
Fate = Literal["kept", "ended", "pruned"]


@dataclass(frozen=True)
class Generated:
    """A continuation (decoder) or a translation (encoder-decoder)."""

    prompt: str
    text: str  # without the prompt, and without a `stop` text
    token_ids: tuple[int, ...]  # of the same, with a `stop` text
    score: float  # the sum of the log-probabilities
    log_probabilities: tuple[float, ...]  # the tokens' (nats), under the model itself, before temperature and filters
    finish: Finish


@dataclass(frozen=True)
class Candidate:
    """A token for a mask; `probability` is 0 to 1."""

    token: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """Every mask of a prompt with its candidates, best first."""

    prompt: str
    predictions: tuple[tuple[Candidate, ...], ...]
    text: str  # the prompt with the best of each put in
    order: tuple[int, ...] | None = None  # every mask's turn, from 0; None: each with all the others still masked


@dataclass(frozen=True)
class LabelProbability:
    """A label and its probability, 0 to 1."""

    label: str
    probability: float


@dataclass(frozen=True)
class Classified:
    """A text's label, its probability, 0 to 1, and those of all labels, the likeliest first."""

    prompt: str
    label: str
    probability: float
    labels: tuple[LabelProbability, ...]


@dataclass(frozen=True)
class TaggedWord:
    """A word's tag and its probability, 0 to 1; None where the tokenizer keeps nothing of the word."""

    word: str
    tag: str | None
    probability: float | None


@dataclass(frozen=True)
class Tagged:
    """A text's words, each with its tag."""

    prompt: str
    words: tuple[TaggedWord, ...]


@dataclass(frozen=True)
class Answered:
    """An answer, from character `start` of the text on, and its probability among all spans, 0 to 1."""

    prompt: str
    question: str
    answer: str
    start: int
    probability: float


Told = Classified | Tagged | Answered


@dataclass(frozen=True)
class Option:
    """A token that could come next: `probability` under the model itself, `chance` in the draw (0: ruled out)."""

    token_id: int
    token: str
    probability: float
    chance: float


@dataclass(frozen=True)
class TraceStep:
    """One new token with the likeliest others of that step, the likeliest first, the chosen one always among them."""

    token_id: int
    token: str
    probability: float
    chance: float
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Trace:
    """How one text came about, a step a token."""

    generated: Generated
    steps: tuple[TraceStep, ...]


@dataclass(frozen=True)
class BeamNode:
    """A beginning that the search looked at."""

    step: int
    parent: int | None
    token_id: int
    token: str
    log_probability: float  # of the token, in nats
    score: float  # that of the tokens up to here
    ranking: float  # that, less what penalties on what is repeated took, over the length penalty
    fate: Fate  # ended: with the end token, a stop text or the last allowed token
    chosen: bool  # on the way to the best text


@dataclass(frozen=True)
class BeamTree:
    """A beam search over one prompt: `nodes` in the order they were looked at; `parent` is a place in it."""

    prompt: str
    beam: int
    length_penalty: float
    nodes: tuple[BeamNode, ...]
    texts: tuple[Generated, ...]
