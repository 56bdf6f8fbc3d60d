"""Perplexity, and what every pass that scores a text has in common."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from tfcli.errors import UsageError
from tfcli.models.transformer import Transformer


@contextmanager
def scoring(model: Transformer) -> Iterator[None]:
    """Without dropout; afterwards, however it ends, the model is in the mode that it was in: a training that is
    interrupted meanwhile may go on."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def require_tokens(tokens: int) -> None:
    """Refuse a text of which nothing can be scored.

    Raises:
        UsageError: no token has a label.
    """
    if tokens == 0:
        raise UsageError(
            "The validation part has no token to score: all are special or unknown to the tokenizer",
            "score text in the alphabet that the tokenizer was trained on",
        )


def perplexity(loss: float) -> float:
    """exp(loss); infinite where that is beyond all numbers."""
    return math.exp(loss) if loss < 700 else math.inf
