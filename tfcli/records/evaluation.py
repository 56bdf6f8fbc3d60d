"""A model's scores on a whole set, how sure they are, and how two models differ on the same text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Interval = tuple[float, float]  # from, to: where 95 % of the resamples lie

Unit = Literal["documents", "pairs", "stretches"]
"""What resamples are made of; stretches of the text where there are few documents."""


@dataclass(frozen=True)
class Intervals:
    """95 % intervals by bootstrap (Efron 1979, percentiles; Koehn 2004); None: no such score, or too little."""

    loss: Interval | None = None
    perplexity: Interval | None = None
    bits_per_byte: Interval | None = None
    bits_per_character: Interval | None = None
    accuracy: Interval | None = None
    pseudo_perplexity: Interval | None = None
    bleu: Interval | None = None
    chrf: Interval | None = None
    exact_match: Interval | None = None
    macro_f1: Interval | None = None
    entity_f1: Interval | None = None
    span_f1: Interval | None = None


@dataclass(frozen=True)
class Bucket:
    """The documents, or pairs, of `shortest` to `longest` tokens (of a pair, its source), and their scores; None where
    none of them has a part in that score."""

    shortest: int
    longest: int
    documents: int
    loss: float | None
    accuracy: float | None
    bleu: float | None = None
    chrf: float | None = None
    exact_match: float | None = None


@dataclass(frozen=True)
class Difference:
    """One score of two models on the same text: the second's less the first's, its 95 % interval, and the p-value of
    a paired bootstrap; None where there is too little to resample."""

    score: str
    first: float
    second: float
    difference: float
    interval: Interval | None
    p_value: float | None


@dataclass(frozen=True)
class Comparison:
    """Another model on the same text; `notes` say what to beware of."""

    scores: Scores
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scores:
    """`loss` in nats a token, `perplexity` = exp(loss), `bits_per_byte` = total nats / (bytes · ln 2). `accuracy` is
    the share of predicted tokens that were right (for an encoder: of masked tokens). BLEU and chrF are sacrebleu's, 0
    to 100, with its signature; `exact_match` is a share of pairs, 0 to 1. `left_out` counts pairs that are too long for
    the context and have no part in the loss; they are translated all the same. `bytes` (UTF-8) and `characters` are
    those of the text that was scored; `unknown` counts the scored tokens that are the unknown one. Windows have
    `context` tokens, each `stride` behind the last (None: none overlap as there are no windows, or they must not).
    `precision` is that of the weights. `text_start` are the tokens that stood before each text, and `unscored` counts
    first tokens that nothing stood before: they are in no score. `pseudo_perplexity` is that of `pseudo_tokens` tokens,
    each masked alone. Of a task head, `tokens` are labels, and accuracy is beside `chance`, that of whoever always says
    the most frequent one. `confusion` counts how often each of the `labels`, by row, was taken for each, by column."""

    run: str
    objective: str
    sources: tuple[str, ...]
    loss: float
    perplexity: float
    bits_per_byte: float | None
    tokens: int
    documents: int
    accuracy: float
    left_out: int = 0
    bleu: float | None = None
    chrf: float | None = None
    exact_match: float | None = None
    signature: str | None = None
    bits_per_character: float | None = None
    bytes: int | None = None
    characters: int | None = None
    unknown: int = 0
    ids_without_token: int = 0  # of the model's vocabulary, which may be larger than the tokenizer's
    share_without_token: float | None = None
    """The probability that the model gives to them, on average over the scored tokens; the loss counts it as the
    model does. None: there are none."""
    context: int | None = None
    precision: str = "float32"
    stride: int | None = None
    windows: Literal["documents", "stream"] | None = None  # what was read at a time (not of pairs)
    text_start: tuple[str, ...] | None = None
    unscored: int = 0
    beam: int | None = None
    references_exact: bool | None = None
    """Whether the references are the text itself; else they are as the tokenizer writes it (of pairs alone)."""
    pseudo_perplexity: float | None = None
    pseudo_tokens: int | None = None
    resampled: Unit | None = None
    pieces_per_word: float | None = None
    """Tokens that a word of the text is cut into; None where nobody has counted the words."""
    usual_pieces_per_word: float | None = None
    """In the validation part of the run's own text, and so are `usual_bits_per_byte`; None where that is not recorded,
    or is what was scored."""
    usual_bits_per_byte: float | None = None
    units: int = 0  # documents, pairs or stretches that the resamples are made of
    intervals: Intervals = Intervals()
    buckets: tuple[Bucket, ...] = ()
    part: Literal["whole", "validation"] = "validation"  # what was scored of the sources
    comparison: Comparison | None = None
    macro_f1: float | None = None
    entity_f1: float | None = None
    span_f1: float | None = None
    chance: float | None = None
    labels: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
