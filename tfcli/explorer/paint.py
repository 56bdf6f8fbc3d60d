"""The explorer's colours: a brush for each colour map, and the styles of marks and words."""

from functools import cache

from rich.color import Color
from rich.style import Style

from tfcli.explorer.state import View
from tfcli.render.brush import Brush
from tfcli.render.colors import SIGNED, VIRIDIS, WEIGHTS

CURSOR = (224, 36, 130)
"""A pink that is in none of the maps, and can be read on black and on white."""
DIM = Style(dim=True)
BOLD = Style(bold=True)

_COLORMAPS = {"cividis": WEIGHTS, "viridis": VIRIDIS}


@cache
def _brush(name: str, color_system: str | None) -> Brush:
    return Brush(SIGNED if name == "signed" else _COLORMAPS[name], color_system)


def map_brush(view: View, color_system: str | None) -> Brush:
    """The brush of the main map: of two sides for what is signed."""
    return _brush("signed" if view.signed else view.palette, color_system)


def weights_brush(view: View, color_system: str | None) -> Brush:
    """The brush of weights."""
    return _brush(view.palette, color_system)


@cache
def cursor_style(color_system: str | None) -> Style:
    """The cursor's own mark, unlike any colour of the maps; without colour, reversed."""
    if color_system is None:
        return Style(bold=True, reverse=True)
    return Style(bold=True, color=Color.from_rgb(0, 0, 0), bgcolor=Color.from_rgb(*CURSOR))


@cache
def mark_style(color_system: str | None) -> Style:
    """Words and lines in the cursor's colour."""
    return Style(bold=True) if color_system is None else Style(bold=True, color=Color.from_rgb(*CURSOR))
