"""The mode a model is scored in."""

from collections.abc import Iterator
from contextlib import contextmanager

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
