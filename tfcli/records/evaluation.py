"""A model's scores on a whole set, how sure they are, and how two models differ on the same text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Interval = tuple[float, float]  # a 95 % confidence interval, from and to
IntervalMethod = Literal["BCa bootstrap", "t", "Wilson", "bootstrap percentiles"]
FEWEST_FOR_BOOTSTRAP = 30  # units; fewer make intervals of resamples too narrow (Efron and Tibshirani 1993, chapter 12)


def mean_method(units: int) -> IntervalMethod:
    """How the interval of a mean over so many units is computed."""
    return "t" if units < FEWEST_FOR_BOOTSTRAP else "BCa bootstrap"


def loss_unit(objective: str | None) -> str:
    """What a loss is measured in: an answer of a task head is a text, a word or a boundary of a span.

    >>> loss_unit("classify"), loss_unit("clm")
    ('nats per text', 'nats per token')
    """
    answers = {"classify": "text", "tag": "word", "span": "span boundary"}
    return f"nats per {answers.get(objective or '', 'token')}"


def leaves_out_0(interval: Interval | None) -> bool:
    """Whether an interval, where there is one, tells its number from 0."""
    return interval is None or interval[0] > 0 or interval[1] < 0


Unit = Literal["documents", "pairs", "stretches"]  # what resamples are made of; stretches where documents are few


@dataclass(frozen=True)
class Intervals:
    """95 % intervals, as evaluation/intervals.py computes them; None: no such score, or too little text."""

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
    """The documents, or pairs, of `shortest` to `longest` tokens (of a pair, its source), and their scores, if any."""

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
    """A score of two models on one text, its 95 % interval and p-value of a paired bootstrap; None: too little text."""

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
    """The scores of a run on a whole set; None where there is no such score."""

    run: str
    objective: str
    sources: tuple[str, ...]
    loss: float  # in the unit of `loss_unit`
    perplexity: float  # exp(loss)
    bits_per_byte: float | None  # total nats / (bytes · ln 2)
    tokens: int  # of a task head: labels
    documents: int
    accuracy: float  # share of predicted tokens that were right (for an encoder: of masked tokens)
    left_out: int = 0  # pairs too long for the context: they have no part in the loss, and are translated all the same
    bleu: float | None = None  # as chrF sacrebleu's, 0 to 100, with its signature
    chrf: float | None = None
    exact_match: float | None = None  # share of pairs, 0 to 1
    signature: str | None = None
    bleu_tokenize: str | None = None  # how sacrebleu cuts texts into words for BLEU
    bits_per_character: float | None = None
    bytes: int | None = None  # in UTF-8, of the text that was scored, as are its characters
    characters: int | None = None
    unknown: int = 0  # scored tokens that are the unknown one
    ids_without_token: int = 0  # of the model's vocabulary, which may be larger than the tokenizer's
    share_without_token: float | None = None  # the mean probability of them, over scored tokens; None: there are none
    context: int | None = None  # tokens of a window
    precision: str = "float32"  # of the weights
    stride: int | None = None  # how far a window stands behind the last; None: none overlap
    windows: Literal["documents", "stream"] | None = None  # what was read at a time (not of pairs)
    text_start: tuple[str, ...] | None = None  # the tokens that stood before each text
    unscored: int = 0  # first tokens that nothing stood before: in no score
    beam: int | None = None
    references_exact: bool | None = None  # whether references are the text, not as the tokenizer writes it (of pairs)
    pseudo_perplexity: float | None = None  # of `pseudo_tokens` tokens, each masked alone
    pseudo_tokens: int | None = None
    resampled: Unit | None = None
    pieces_per_word: float | None = None  # tokens that a word of the text is cut into; None: not counted
    usual_pieces_per_word: float | None = None  # of the run's own validation part; None: unrecorded, or scored here
    usual_bits_per_byte: float | None = None
    units: int = 0  # documents, pairs or stretches that the resamples are made of
    intervals: Intervals = Intervals()
    interval_methods: Mapping[str, IntervalMethod] = field(default_factory=dict)  # of the scores that have an interval
    buckets: tuple[Bucket, ...] = ()
    part: Literal["whole", "validation"] = "validation"  # what was scored of the sources
    comparison: Comparison | None = None
    macro_f1: float | None = None
    entity_f1: float | None = None
    span_f1: float | None = None
    chance: float | None = None  # accuracy of whoever always says the most frequent label
    labels: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()  # how often each label, by row, was taken for each, by column
