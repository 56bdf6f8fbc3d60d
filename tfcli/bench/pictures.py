"""How long a picture takes to draw, in every form that it has. Whoever asks hands over the drawing itself."""

import time
from collections.abc import Callable, Mapping

import numpy as np

from tfcli.bench.machine import describe_machine
from tfcli.bench.measure import in_turns, spread
from tfcli.bench.protocol import Answer
from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionRecord
from tfcli.records.bench import PictureSpeed, PictureTime


def measure_pictures(draw: Mapping[str, Callable[[], str]], tokens: int, columns: int, rounds: int) -> PictureSpeed:
    """Every form drawn in turns, after one round that does not count.

    Args:
        draw: how each form is drawn, as text; of `tokens` × `tokens` weights, on `columns` columns.
    """
    forms = {form: _Drawing(drawn) for form, drawn in draw.items()}
    seconds = in_turns(list(forms.values()), rounds, warmup=1)
    times = tuple(
        PictureTime(form, spread(taken), drawing.size)
        for (form, drawing), taken in zip(forms.items(), seconds, strict=True)
    )
    return PictureSpeed(tokens, columns, rounds, describe_machine("cpu", threads=1), times)


def random_head(tokens: int) -> AttentionRecord:
    """A decoder's head with a peak in every row, as trained heads have. No model is run."""
    scores = np.random.default_rng(0).normal(0.0, 3.0, (tokens, tokens))
    powers = np.tril(np.exp(scores))
    labels = tuple(f"t{number}" for number in range(tokens))
    return AttentionRecord("decoder_self", labels, labels, frozen([[powers / powers.sum(axis=1, keepdims=True)]]))


class _Drawing:
    """A side of the benchmark whose step draws once.

    Attributes:
        size: bytes of what was drawn last.
    """

    def __init__(self, draw: Callable[[], str]) -> None:
        self._draw, self.size = draw, 0

    def step(self) -> Answer:
        began = time.perf_counter()
        drawn = self._draw()
        seconds = time.perf_counter() - began
        self.size = len(drawn.encode())
        return {"seconds": seconds}
