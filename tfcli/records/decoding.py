"""The stages of decoding, from logits to tokens, with every number; and greedy decoding beside a beam search."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfcli.records.generation import BeamTree


@dataclass(frozen=True)
class DecodingCandidate:
    """A token in one step.

    `logit` z is the model's, and `adjusted` z′ what the settings against repetition make of it, z where there are none;
    `scaled` is (z′ − max z′) / τ, None where the temperature is 0. Probabilities: `probability` of the model itself,
    then what is left after each stage, renormalised, 0 where it is ruled out: `tempered`, and `after` each filter, by
    "after_top_k", "after_top_p", "after_min_p" and whatever filter else there is. `chance` is that of the draw, which
    takes the token where its random number u lies from `begin` up to `end`: the chances of all tokens
    stand one after the other, by id.
    """

    token: str
    token_id: int
    logit: float
    adjusted: float
    scaled: float | None
    probability: float
    tempered: float
    after: Mapping[str, float] = field(metadata={"flat": True})
    chance: float
    begin: float
    end: float


@dataclass(frozen=True)
class DecodingStep:
    """One new token. `candidates` are the likeliest and the chosen one, the likeliest first; `others` are the further
    tokens with `rest` of the model's probability. `kept` counts the tokens that each filter leaves, by "kept_top_k" ….

    `uniform` is u, from 0 to 1; None: the best token is taken.
    """

    before: tuple[str, ...]
    candidates: tuple[DecodingCandidate, ...]
    others: int
    rest: float
    kept: Mapping[str, int] = field(metadata={"flat": True})
    uniform: float | None
    token: str
    token_id: int


@dataclass(frozen=True)
class DecodedPath:
    """A text with the model's probability of each of its tokens; `log_probability` is their sum in nats."""

    name: str
    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]
    log_probability: float


@dataclass(frozen=True)
class DecodingRecord:
    """A text in the making, step by step, and the same prompt by the likeliest next token and by a beam search.

    `source` is a run, or None of a toy.
    """

    source: str | None
    prompt: str
    vocabulary: int
    repetition_penalty: float
    no_repeat_ngram: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    steps: tuple[DecodingStep, ...]
    greedy: DecodedPath
    beam: DecodedPath
    tree: BeamTree

    @property
    def is_against_repetition(self) -> bool:
        """Whether z′ is another number than z anywhere."""
        return self.repetition_penalty != 1 or self.no_repeat_ngram > 0
