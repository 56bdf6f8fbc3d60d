"""Colour scales: a few colours with straight lines between them, and what can be read on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.console import Console
from rich.style import Style

RGB = tuple[int, int, int]
T = TypeVar("T")

BLACK, WHITE = (0, 0, 0), (255, 255, 255)
LEVELS = 33  # colours in a map; odd, so that a signed map has one exactly at 0
NO_VALUE = LEVELS  # the level of a cell that holds no value (NaN)
NO_VALUE_MARK = "–"  # stands in such a cell, as of a masked weight; "·" is a space in a token


@dataclass(frozen=True)
class Colormap:
    """`table[level]` from the lowest value to the highest, through the evenly spaced `points` in hexadecimal. In few
    steps for lesser consoles: `indexes` (16 to 231) of the xterm colours, `glyphs` from light to dark where there is no
    colour. Sixteen colours would fold a map into wrong steps: glyphs again, of a signed map the darker the further from
    0, in the two `tints`, below and above it."""

    points: str
    indexes: tuple[int, ...]
    tints: tuple[str, str] | None = None
    glyphs = " ░▒▓█"

    @cached_property
    def table(self) -> tuple[RGB, ...]:
        """`LEVELS` colours."""
        points = [tuple(bytes.fromhex(color)) for color in self.points.split()]
        at = np.linspace(0, len(points) - 1, LEVELS)
        channels = [np.interp(at, range(len(points)), channel) for channel in zip(*points, strict=True)]
        return tuple((round(r), round(g), round(b)) for r, g, b in zip(*channels, strict=True))


def step(steps: Sequence[T], level: int) -> T:
    """Which of a few steps stands for a level."""
    return steps[round(level / (LEVELS - 1) * (len(steps) - 1))]


# Blue to yellow with evenly rising lightness, read alike with and without red-green vision.
WEIGHTS = Colormap("081a48 143468 3a4e6d 5c6772 7b7e78 9e9774 c2b367 e4d052 fdec4a", (17, 18, 60, 102, 144, 185, 227))
# Viridis: violet to yellow by way of green, lightness rising evenly as well.
VIRIDIS = Colormap("440154 46327e 365c8d 277f8e 1fa187 4ac16d a0da39 fde725", (53, 60, 24, 30, 36, 71, 148, 226))
# Blue below 0, white at 0, red above.
_SIGNED = "184296 3a74be 74a8d8 b8d4ec f8f8f8 f6ccba e89076 d05046 a41428"
SIGNED = Colormap(_SIGNED, (19, 26, 68, 110, 153, 231, 224, 217, 174, 167, 124), ("blue", "red"))


def levels(values: NDArray[np.float32], low: float, high: float) -> NDArray[np.intp]:
    """Each value's level between `low` and `high`, cut off outside; NaN gives NO_VALUE. Any shape."""
    known = ~np.isnan(values)
    share = np.clip((np.where(known, values, low) - low) / ((high - low) or 1.0), 0.0, 1.0)
    return np.where(known, np.rint(share * (LEVELS - 1)).astype(np.intp), NO_VALUE)


def readable_on(background: RGB) -> RGB:
    """Black or white, whichever has the higher contrast (relative luminance, WCAG 2.1, section 1.4.3)."""
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (channel / 255 for channel in background)
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    # The contrasts (L + .05) / .05 with black and 1.05 / (L + .05) with white are equal at L = .179.
    return BLACK if luminance > 0.179 else WHITE


def hexadecimal(color: RGB) -> str:
    """A colour as "#rrggbb".

    >>> hexadecimal((255, 64, 10))
    '#ff400a'
    """
    return "#{:02x}{:02x}{:02x}".format(*color)


_ENOUGH = ("256", "truecolor")


class Brush:
    """Paints levels of `colormap` on consoles of one kind: rich keeps a style's escape codes from its first use."""

    def __init__(self, colormap: Colormap, color_system: str | None) -> None:
        self.colormap, self.color_system, self.in_color = colormap, color_system, color_system in _ENOUGH
        self._tints = colormap.tints if color_system == "standard" else None
        self.style, self.readable = cache(self._style), cache(self._readable)

    def _style(self, ink: int, paper: int = NO_VALUE) -> Style:
        """The level `ink` on the level `paper`; NO_VALUE leaves the terminal's own colour."""
        return Style.from_color(self._color(ink), self._color(paper))

    def _readable(self, paper: int) -> Style:
        """Black or white on the level `paper`."""
        background = self._color(paper) or Color.default()
        ink = Color.from_ansi(16 if readable_on(background.get_truecolor()) == BLACK else 231)
        return Style.from_color(ink, background)

    @property
    def glyphs(self) -> str:
        """What stands for values without colour, from the lowest to the highest."""
        return self.colormap.glyphs if self._tints is None else self.colormap.glyphs[:0:-1] + self.colormap.glyphs

    def glyph(self, level: int) -> str:
        """The glyph that stands for a level; `NO_VALUE_MARK` where there is no value."""
        return NO_VALUE_MARK if level == NO_VALUE else step(self.glyphs, level)

    def tint(self, level: int) -> Style | None:
        """Of a level's glyph where there are sixteen colours and the map is signed."""
        if self._tints is None or level in (LEVELS // 2, NO_VALUE):
            return None
        below, above = self._tints
        return Style(color=below if level < LEVELS // 2 else above)

    def _color(self, level: int) -> Color | None:
        if level == NO_VALUE:
            return None
        if self.color_system == "256":
            return Color.from_ansi(step(self.colormap.indexes, level))
        return Color.from_rgb(*self.colormap.table[level])


brush_of = cache(Brush)


def brush_for(console: Console, colormap: Colormap) -> Brush:
    """The console's brush: in colour with 256 colours or more."""
    return brush_of(colormap, None if console.no_color else console.color_system)


def has_colors(console: Console) -> bool:
    """Whether a colour scale can be told apart on `console`."""
    return console.color_system in _ENOUGH and not console.no_color
