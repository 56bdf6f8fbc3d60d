"""The one source of chance of builtin:pt-en."""

from bisect import bisect_right
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Chooses; two draws from the same key choose the same on every platform and Python version."""

    def __init__(self, key: str) -> None:
        self._random = Random(key).random

    def one(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[int(self._random() * len(options))]

    def weighted(self, options: Sequence[T], cumulative_weights: Sequence[float]) -> T:
        """One of the options; `cumulative_weights` rise to the total."""
        return options[bisect_right(cumulative_weights, self._random() * cumulative_weights[-1])]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability
