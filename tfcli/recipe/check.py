"""``[check]`` and ``[result]``: what a recipe must reach, and what it reached when it was written."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Le, Unit


@dataclass(frozen=True)
class CheckSection:
    """Limits that `tfcli run --check` demands of the trained model's evaluation."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    max_loss: Annotated[float, Gt(0), Unit("nats")] | None = None
    """Largest validation loss, nats a token."""

    min_accuracy: Annotated[float, Gt(0), Le(1), Unit("share")] | None = None
    """Smallest share of masked tokens predicted right, 0 to 1."""

    min_bleu: Annotated[float, Gt(0), Le(100)] | None = None
    """Smallest BLEU, 0 to 100."""

    min_exact_match: Annotated[float, Gt(0), Le(1), Unit("share")] | None = None
    """Smallest share of validation pairs translated word for word, 0 to 1."""

    max_minutes: Annotated[float, Gt(0), Unit("minutes")] | None = None
    """Most minutes for the whole recipe."""


@dataclass(frozen=True)
class ResultSection:
    """What the recipe reached when it was written: for the reader, never used."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    reached: str = ""
    """The figures that it reached."""

    minutes: float | None = None
    """Minutes that the whole recipe took."""

    machine: str = ""
    """The machine it ran on."""

    date: str = ""
    """The day it ran, as YYYY-MM-DD."""
