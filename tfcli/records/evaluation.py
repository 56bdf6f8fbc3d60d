"""A model's scores on a whole set."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scores:
    """`loss` in nats a token, `perplexity` = exp(loss), `bits_per_byte` = total nats / (bytes · ln 2).

    `accuracy` is the share of predicted tokens that were right (for an encoder: of masked tokens). BLEU and chrF are
    sacrebleu's, 0 to 100, with its signature; `exact_match` is a share of pairs, 0 to 1. `left_out` counts pairs that
    are too long for the context and have no part in the loss; they are translated all the same.
    """

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
