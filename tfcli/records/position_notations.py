"""Positions as every lecture writes them, and the same numbers worked out."""

from dataclasses import dataclass

from tfcli.records.explain import Explanation, NotationName


@dataclass(frozen=True)
class Spelling:
    """How one lecture writes a positional encoding."""

    lecture: str
    notation: NotationName | None
    """The name under which it can be chosen; None: of another's."""
    formulas: tuple[str, ...]
    """Empty: it gives none."""
    joins: str
    letters: str
    """What stands for position, dimension and size."""


@dataclass(frozen=True)
class PositionExplanation:
    """The lectures side by side, then one of them step by step."""

    spellings: tuple[Spelling, ...]
    explanation: Explanation
