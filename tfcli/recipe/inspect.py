"""``[inspect]``: what `tfcli run` shows of the inside of the trained model."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Unit


@dataclass(frozen=True)
class InspectSection:
    """An attention table and the positional encoding, shown at the end of a recipe."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    attention: str | None = None
    """The text whose attention is shown. None: no table."""

    target: str | None = None
    """The target text of an encoder-decoder. None: its own greedy output."""

    layer: Annotated[int, Ge(0)] | None = None
    """Layer of the table, from 0. None: that of the head that attends farthest, the first token and the neighbours
    aside."""

    head: Annotated[int, Ge(0)] | None = None
    """Head of the table, from 0. None: chosen as the layer is."""

    positions: Annotated[int, Ge(0), Unit("positions")] = 0
    """How many positions of the positional encoding to show; 0: none. In a terminal, the command that shows them is
    named."""
