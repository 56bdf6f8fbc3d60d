"""Recipes: everything a run is made from, as frozen dataclasses and TOML."""

from collections.abc import Iterable
from typing import ClassVar

from tfcli.errors import UsageError

Refusal = tuple[str, str]  # what is wrong, and the remedy


class Section:
    """What pydantic is told of every section: it has no other keys, and no number that is infinite or none."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def __post_init__(self) -> None:
        for problem, remedy in self.refusals():
            raise UsageError(problem, remedy)

    def refusals(self) -> Iterable[Refusal]:
        """What does not go together, of which the first is told."""
        return ()
