"""A colour scale on one console: its styles, made once, or glyph shades where there is no colour."""

from weakref import WeakKeyDictionary

from rich.color import Color
from rich.console import Console
from rich.style import Style

from tfcli.render.colors import BLACK, LEVELS, NO_VALUE, Colormap, readable_on, step, xterm

_ENOUGH = ("256", "truecolor")


class Brush:
    """Paints levels of `colormap` on a console.

    Rich keeps a style's escape codes from its first use, so a style belongs to one console.
    """

    def __init__(self, colormap: Colormap, color_system: str | None) -> None:
        self.colormap = colormap
        self.color_system = color_system
        self.in_color = color_system in _ENOUGH
        self._tints = colormap.tints if color_system == "standard" else None
        self._styles: dict[tuple[int, int], Style] = {}
        self._readable: dict[int, Style] = {}

    def style(self, ink: int, paper: int = NO_VALUE) -> Style:
        """The level `ink` on the level `paper`; NO_VALUE leaves the terminal's own colour."""
        style = self._styles.get((ink, paper))
        if style is None:
            style = self._styles[ink, paper] = Style.from_color(self._color(ink), self._color(paper))
        return style

    def readable(self, paper: int) -> Style:
        """Black or white on the level `paper`."""
        style = self._readable.get(paper)
        if style is None:
            few = self.color_system == "256"
            background = xterm(self.colormap.index(paper)) if few else self.colormap.table[paper]
            ink = Color.from_ansi(16 if readable_on(background) == BLACK else 231)
            style = self._readable[paper] = Style.from_color(ink, self._color(paper))
        return style

    @property
    def glyphs(self) -> str:
        """What stands for values without colour, from the lowest to the highest."""
        return self.colormap.glyphs if self._tints is None else self.colormap.glyphs[:0:-1] + self.colormap.glyphs

    def glyph(self, level: int) -> str:
        """The glyph that stands for a level; "·" where there is no value."""
        return "·" if level == NO_VALUE else step(self.glyphs, level)

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
            return Color.from_ansi(self.colormap.index(level))
        return Color.from_rgb(*self.colormap.table[level])


_brushes: WeakKeyDictionary[Console, dict[Colormap, Brush]] = WeakKeyDictionary()


def brush_for(console: Console, colormap: Colormap) -> Brush:
    """The console's brush: in colour with 256 colours or more."""
    color_system = None if console.no_color else console.color_system
    known = _brushes.setdefault(console, {})
    if colormap not in known or known[colormap].color_system != color_system:
        known[colormap] = Brush(colormap, color_system)
    return known[colormap]


def has_colors(console: Console) -> bool:
    """Whether a colour scale can be told apart on `console`."""
    return console.color_system in _ENOUGH and not console.no_color
