"""Plots as an SVG of lines and circles: the same bytes every time, nothing fetched."""

import math
from collections.abc import Sequence
from html import escape

from tfcli.render.curve import Plot, Series, nice_ticks
from tfcli.render.svg import svg_document

_WIDTH, _LEFT, _RIGHT, _TOP = 720, 72, 24, 40
_LINE = 20  # pixels for a line of the plot in a terminal
_GAP = 56  # under a plot: its axis and its names
_INKS = {"cyan": "#0e7490", "yellow": "#b45309", "green": "#15803d", "red": "#b91c1c"}


def curve_svg(title: str, plots: Sequence[Plot]) -> str:
    """An SVG document: the plots under each other, each with its axes and names. Without plots, the title alone."""
    parts, top = [], _TOP
    for plot in plots:
        parts += _plot(plot, top)
        top += plot.height * _LINE + _GAP
    words = f"<text x='16' y='24' font-size='15' font-weight='bold'>{escape(title)}</text>"
    return svg_document(title, _WIDTH, top, [words, *parts])


def _plot(plot: Plot, top: int) -> list[str]:
    points = [list(_known(series)) for series in plot.series]
    ys = [y for one in points for _, y in one]
    first, last = plot.x_range or (0.0, max(x for one in points for x, _ in one))
    low, high = min(ys), max(ys)
    if high == low:
        low, high = low - 0.05, high + 0.05
    right, height = _WIDTH - _RIGHT, plot.height * _LINE

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - first) / ((last - first) or 1.0)
        return _LEFT + across * (right - _LEFT), top + (high - y) / (high - low) * height

    parts = []
    for tick in nice_ticks(low, high, max(2, plot.height // 2)):
        y = place(first, tick)[1]
        parts.append(f"<path d='M{_LEFT} {y:.1f}H{right}' stroke='#e5e5e5'/>")
        parts.append(f"<text x='{_LEFT - 8}' y='{y + 4:.1f}' text-anchor='end' fill='#555555'>{tick:g}</text>")
    parts.append(f"<path d='M{_LEFT} {top}V{top + height}H{right}' fill='none' stroke='#555555'/>")
    for series, one in zip(plot.series, points, strict=True):
        parts += _series(series, [place(x, y) for x, y in one])
    return [*parts, *_names(plot, top + height + 18, right, first, last)]


def _series(series: Series, places: Sequence[tuple[float, float]]) -> list[str]:
    ink = _ink(series)
    if series.marker:
        return [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{ink}'/>" for x, y in places]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return [f"<polyline points='{line}' fill='none' stroke='{ink}' stroke-width='1.5'/>"]


def _names(plot: Plot, y: int, right: int, first: float, last: float) -> list[str]:
    names = "".join(f"<tspan dx='24' fill='{_ink(series)}'>{escape(series.name)}</tspan>" for series in plot.series)
    return [
        f"<text x='{_LEFT}' y='{y}'>{first:,.0f}</text>",
        f"<text x='{(_LEFT + right) // 2}' y='{y}' text-anchor='middle'>{escape(plot.x_label)}{names}</text>",
        f"<text x='{right}' y='{y}' text-anchor='end'>{last:,.0f}</text>",
    ]


def _ink(series: Series) -> str:
    return _INKS.get(series.style.split()[-1] if series.style else "", "#333333")


def _known(series: Series) -> list[tuple[float, float]]:
    pairs = zip(series.xs, series.ys, strict=True)
    return [(x, y) for x, y in pairs if y is not None and math.isfinite(x) and math.isfinite(y)]
