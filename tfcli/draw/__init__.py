"""The drawing kit: matrices, heat maps, curves, tables, SVG, pages, colours, safe text; it knows no model."""

from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")


@dataclass(frozen=True)
class View(Generic[R]):
    """A record as rich draws it: a subclass says how, in ``__rich_console__``."""

    record: R
