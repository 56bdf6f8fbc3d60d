"""The drawing kit: matrices, heat maps, curves, tables, SVG, pages, colours, safe text; it knows no model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from types import UnionType
from typing import Any, Generic, TypeVar, get_args

R = TypeVar("R")


@dataclass(frozen=True)
class View(Generic[R]):
    """A record as rich draws it: a subclass says how, in ``__rich_console__``; notebooks show the first one of it."""

    record: R

    def __init_subclass__(cls) -> None:
        def html(record: Any) -> str:
            return notebook_html(cls(record))

        for kind in get_args(cls.__dict__.get("__orig_bases__", [None])[0]):
            for one in get_args(kind) if isinstance(kind, UnionType) else (kind,):
                if is_dataclass(one) and not hasattr(one, "_repr_html_"):
                    setattr(one, "_repr_html_", html)  # noqa: B010 (a record says nothing of it)


def notebook_html(view: Any) -> str:
    """What a notebook shows of a view: its picture, in the colours of the notebook's page."""
    from tfcli.draw.svg import picture_svg
    from tfcli.draw.themes import notebook_style

    picture = picture_svg(view, 100, "light")
    return f'<div class="tfcli" style="overflow-x: auto"><style>{notebook_style()}</style>{picture}</div>'


class Shown(list[R]):
    """Records whose pictures a notebook shows below each other."""

    def _repr_html_(self) -> str:
        return "".join(one._repr_html_() for one in self)  # type: ignore[attr-defined]


class Stepwise(View[R]):
    """A record drawn in steps, which can be seen one at a time."""

    def parts(self) -> Sequence[Any]:
        """What is said of all steps, then the steps in their order."""
        raise NotImplementedError

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        for number, part in enumerate(self.parts()):
            yield from ("", part) if number else (part,)
