"""Series of numbers as a plot of Braille dots (2 × 4 a cell) with axes."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.draw.numbers import decimals

# The bit of each dot in a Braille cell (Unicode block U+2800), by [row][column].
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_UPPER, _LOWER = 0x01 | 0x08 | 0x02 | 0x10, 0x04 | 0x20 | 0x40 | 0x80
_PLAIN = str.maketrans("┤│└─━●◆", "+|+--ox")  # where the encoding has nothing better
_LETTER_EVERY = 12  # cells
_Points = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Series:
    """Points to be joined by a line, or, with `marker`, each shown as that character. A line with a `letter` carries it
    every so often, so that it is known without colour, too. A `band` is the lowest and the highest
    value at each x, shaded under the lines of all series."""

    name: str
    xs: Sequence[float] | NDArray[Any]
    ys: Sequence[float | None] | NDArray[Any]
    style: str = ""
    marker: str = ""
    letter: str = ""
    band: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


@dataclass(frozen=True)
class Plot:
    """Series over one x axis, letters of later ones on top. Points that are not finite leave a gap. `height` is in
    lines, without the x axis; ranges are those of the points where they are None, and what is beyond `y_range` is cut
    off. `gutter`: cells left of the y axis at least, so that plots under each other stand in line."""

    series: tuple[Series, ...]
    x_label: str
    height: int = 8
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    gutter: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [(series, _finite(xs, ys, self.y_range)) for series in self.series for xs, ys in _unbroken(series)]
        points = [line for _, line in lines]
        if not points:
            return
        xs = np.concatenate([p[0] for p in points])
        bands = [np.concatenate(series.band) for series in self.series if series.band is not None]
        ys = np.concatenate([*(p[1] for p in points), *(band[np.isfinite(band)] for band in bands)])
        if not len(xs):
            return
        low, high = _padded(*(self.y_range or (float(ys.min()), float(ys.max()))))
        low, high, marks = _centred(low, high, self.height)
        ticks = {_line_of(tick, low, high, self.height): tick for tick in marks}
        digits = _digits(list(ticks.values()))
        names = {line: decimals(tick, digits) for line, tick in ticks.items()}
        gutter = max([self.gutter, *map(len, names.values())])
        first, last = self.x_range or (float(xs.min()), float(xs.max()))
        width = max(4, options.max_width - gutter - 3)
        canvas = _Canvas(width, self.height, (first, last), (low, high), options.ascii_only)
        for series in self.series:
            canvas.shade(series)
        for series, places in lines:
            canvas.draw(series, *places)
        for number in range(self.height):
            edge = _written("┤" if number in names else "│", options.ascii_only)
            yield Segment(f"{names.get(number, ''):>{gutter}} {edge}", Style(dim=True))
            yield from (canvas.cell(number, column) for column in range(width))
            yield Segment.line()
        yield from self._x_axis(gutter, width, first, last, options.ascii_only)

    def _x_axis(self, gutter: int, width: int, first: float, last: float, ascii_only: bool) -> RenderResult:
        yield Text(" " * gutter + _written(" └" + "─" * width, ascii_only), style="dim")
        left, right = (f"{end:,.0f}" if last - first >= 3 else f"{end:.2g}" for end in (first, last))
        names = Text(style="dim")
        for series in self.series:
            sign = _written(series.marker or series.letter or "━", ascii_only)
            names.append("   ").append(sign, series.style).append(f" {series.name}")
        room = width - len(left) - len(right)
        middle = Text(self.x_label, style="dim")
        fits = middle.cell_len + names.cell_len + 2 <= room  # else they have a line of their own
        middle.append_text(names if fits else Text())
        middle.truncate(max(0, room - 2), overflow="ellipsis")
        before = (room - middle.cell_len) // 2
        behind = room - middle.cell_len - before
        yield Text.assemble(" " * (gutter + 2), left, " " * before, middle, " " * behind, right)
        if not fits:
            yield names[3:]


_FURTHEST = 1e300


@dataclass
class _Canvas:
    width: int
    height: int
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    ascii_only: bool
    dots: dict[tuple[int, int], dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    shades: dict[tuple[int, int], dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    markers: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)

    def shade(self, series: Series) -> None:
        """Fill the band of a series with every second dot of every second column."""
        if series.band is None:
            return
        xs = np.array(series.xs, dtype=np.float64)
        low, high = series.band
        known = np.isfinite(xs) & np.isfinite(low) & np.isfinite(high)
        if not known.any():
            return
        ends = _scaled(xs[known][[0, -1]], *self.x_range, self.width * 2).tolist()
        columns = np.arange(ends[0], ends[1] + 1, 2)
        first, last = self.x_range
        places = first + columns / (self.width * 2 - 1) * (last - first)
        bottom = self.height * 4 - 1
        lowest = bottom - _scaled(np.interp(places, xs[known], low[known]), *self.y_range, self.height * 4)
        highest = bottom - _scaled(np.interp(places, xs[known], high[known]), *self.y_range, self.height * 4)
        for x, top, end in zip(columns.tolist(), highest.tolist(), lowest.tolist(), strict=True):
            offset = (top + x // 2) % 2
            for y in range(top + offset, end + 1, 2):
                self.shades[y // 4, x // 2][series.style] |= _DOTS[y % 4][x % 2]

    def draw(self, series: Series, xs: NDArray[np.float64], ys: NDArray[np.float64]) -> None:
        dots_x = _scaled(xs, *self.x_range, self.width * 2)
        dots_y = self.height * 4 - 1 - _scaled(ys, *self.y_range, self.height * 4)
        if series.marker:
            for x, y in zip((dots_x // 2).tolist(), (dots_y // 4).tolist(), strict=True):
                self._mark(y, x, series.marker, series.style)
            return
        previous = None
        for x in np.unique(dots_x).tolist():
            here = dots_y[dots_x == x].tolist()
            if previous:
                self._join(*previous, x, here[0], series.style)
            for y in range(min(here), max(here) + 1):
                self._dot(x, y, series.style)
            previous = (x, here[-1])
            if series.letter and (x // 2 - ord(series.letter) * 5) % _LETTER_EVERY == 0:
                self._mark(previous[1] // 4, x // 2, series.letter, series.style)
        if series.letter and previous:
            self._mark(previous[1] // 4, previous[0] // 2, series.letter, series.style)

    def cell(self, row: int, column: int) -> Segment:
        """Of curves that share cells, each has one in turn: a cell has one colour."""
        curves = [*self.dots[row, column].items()] or [*self.shades[row, column].items()] or [("", 0)]
        style, bits = curves[column % len(curves)]
        sign = chr(0x2800 + bits) if bits else " "
        if self.ascii_only:
            sign = " '.:"[bool(bits & _UPPER) + 2 * bool(bits & _LOWER)]
        sign, style = self.markers.get((row, column), (sign, style))
        return Segment(sign, Style.parse(style) if style else None)

    def _mark(self, row: int, column: int, marker: str, style: str) -> None:
        self.markers[row, column] = _written(marker, self.ascii_only), style

    def _join(self, x0: int, y0: int, x1: int, y1: int, style: str) -> None:
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            self._dot(round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps), style)

    def _dot(self, x: int, y: int, style: str) -> None:
        self.dots[y // 4, x // 2][style] |= _DOTS[y % 4][x % 2]


def _written(signs: str, ascii_only: bool) -> str:
    """`signs` as the terminal's encoding can show them."""
    return signs.translate(_PLAIN).encode("ascii", "replace").decode().replace("?", "*") if ascii_only else signs


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` (2 or more) multiples of 1, 2 or 5 × 10ᵏ between `low` and `high`.

    >>> nice_ticks(1.3, 4.2, 4)
    [2.0, 3.0, 4.0]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / max(most, 2)))
    for factor in (1, 2, 5, 10, 20):
        first, last = math.ceil(low / (step * factor) - 1e-9), math.floor(high / (step * factor) + 1e-9)
        if last - first + 1 <= max(most, 2):
            return [round(n * step * factor, 12) for n in range(first, last + 1)]
    return []


def _centred(low: float, high: float, height: int) -> tuple[float, float, list[float]]:
    """The range with room for ticks in the middle of their lines, whose outer dots are 3/8 of a line away from it."""
    best = (math.inf, low, high, nice_ticks(low, high, height // 2))
    for most in range(height // 2, 1, -1):
        ticks = nice_ticks(low, high, most)
        for lines in range(height, 0, -1) if len(ticks) > 1 else ():  # from tick to tick
            line = (ticks[1] - ticks[0]) / lines
            bottom = ticks[0] - line * math.ceil((ticks[0] - low) / line - 0.376)
            if line < best[0] * 0.999 and high <= bottom + line * (height - 0.624):
                best = line, bottom - 0.375 * line, bottom + line * (height - 0.625), ticks
    return best[1:]


def _digits(ticks: list[float]) -> int:
    """Decimals that write every tick without rounding."""
    return next((d for d in range(7) if all(abs(round(t, d) - t) < 1e-9 for t in ticks)), 7)


def _unbroken(series: Series) -> Iterable[_Points]:
    """Its points between those that are not finite, from each of these on."""
    xs, ys = _drawable(series.xs), _drawable(series.ys)
    gaps = np.flatnonzero(~np.isfinite(ys))
    return zip(np.split(xs, gaps), np.split(ys, gaps), strict=True)


def _drawable(values: Sequence[float | None] | NDArray[Any]) -> NDArray[np.float64]:
    """Numbers whose differences a float holds: finite ones no further from 0 than `_FURTHEST`."""
    numbers = np.array(values, dtype=np.float64)
    return np.where(np.isfinite(numbers), np.clip(numbers, -_FURTHEST, _FURTHEST), numbers)


def _finite(xs: NDArray[np.float64], ys: NDArray[np.float64], y_range: tuple[float, float] | None) -> _Points:
    known = np.isfinite(xs) & np.isfinite(ys)
    if y_range is not None:
        known &= (ys >= y_range[0]) & (ys <= y_range[1])
    return xs[known], ys[known]


def _padded(low: float, high: float) -> tuple[float, float]:
    """A range that is not empty."""
    margin = 0.0 if high - low > 1e-9 * max(1.0, abs(high)) else max(abs(low) * 0.05, 0.05)
    return low - margin, high + margin


def _scaled(values: NDArray[np.float64], low: float, high: float, size: int) -> NDArray[np.intp]:
    """Each value's dot, 0 to size − 1; outside values on the edge."""
    share = np.clip((values - low) / ((high - low) or 1.0), 0.0, 1.0)
    return np.rint(share * (size - 1)).astype(np.intp)


def _line_of(tick: float, low: float, high: float, height: int) -> int:
    return int(height * 4 - 1 - _scaled(np.array([tick]), low, high, height * 4)[0]) // 4
