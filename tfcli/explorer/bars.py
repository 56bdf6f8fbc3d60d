"""Beside the map: the cursor's row as bars over the keys, and what the head does with this text in numbers."""

import numpy as np
from rich.segment import Segment

from tfcli.explorer.drawn import Drawn
from tfcli.explorer.grid import around
from tfcli.explorer.map_widget import cell_number
from tfcli.explorer.paint import BOLD, DIM, map_brush, mark_style
from tfcli.explorer.scene import Scene
from tfcli.records.heads import HeadStatistics
from tfcli.render.brush import Brush
from tfcli.render.cells import Line
from tfcli.render.colors import LEVELS, NO_VALUE, SIGNED, levels
from tfcli.render.numbers import weight
from tfcli.render.safe import fit, widest

_EIGHTHS = " ▏▎▍▌▋▊▉"
_NUMBER = 5
_ROLES = ("first token", "itself", "previous token", "next token", "same place")
_SCORES = (("induction", "induction"), ("duplicate", "duplicate"), ("in order", "in_order"))
MOST = len(_ROLES) + len(_SCORES) + 2  # no kind has all


class RowBars(Drawn):
    """Where one query looks: a bar a key, in the order of the keys or with the largest first."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """As many bars as fit, the cursor's among them."""
        row = scene.values.numbers[scene.view.row]
        order = _order(row, largest_first=scene.view.sorted)
        at = order.index(scene.view.column) if scene.view.column in order else 0
        shown = min(len(order), height if len(order) <= height else height - 1)
        first = around(at, shown, len(order))
        label_width = min(widest(scene.keys), max(4, width // 3))
        room = max(1, width - label_width - _NUMBER - 3)
        brush = map_brush(scene.view, scene.color_system)
        grid = levels(scene.values.shades[scene.view.row], scene.values.low, scene.values.high).tolist()
        largest = float(np.nanmax(np.abs(row), initial=0.0)) if not np.isnan(row).all() else 0.0
        lines = []
        for key in order[first : first + shown]:
            number = float(row[key])
            share = abs(number) / largest if largest and not np.isnan(number) else 0.0
            lines.append(
                [
                    *_label(scene, key, label_width),
                    *_bar(share, room, grid[key], brush, light=scene.light),
                    Segment(_number(number, signed=scene.values.signed), DIM if np.isnan(number) else None),
                ]
            )
        if shown < len(order):
            lines.append([Segment(f"{len(order) - shown} more keys", DIM)])
        return lines


def _order(row: np.ndarray, *, largest_first: bool) -> list[int]:
    """Keys as they come, or with the largest first; what may not be looked at stays behind."""
    keys = list(range(len(row)))
    if not largest_first:
        return keys
    return sorted(keys, key=lambda key: (np.isnan(row[key]), -abs(row[key])))


def _label(scene: Scene, key: int, width: int) -> Line:
    text = fit(scene.keys[key], width, "right")
    if key == scene.view.column:
        return [Segment(f"▸{text} ", mark_style(scene.color_system))]
    return [Segment(f" {text} ")]


def _bar(share: float, room: int, level: int, brush: Brush, *, light: bool) -> Line:
    """A bar of eighths of a column."""
    eighths = round(share * room * 8)
    text = ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()) if eighths else ""
    if brush.colormap is not SIGNED:
        # What is nearest to the screen's own colour would not be seen on it.
        level = min(level, LEVELS * 2 // 3) if light else max(level, LEVELS // 3)
    style = brush.style(level) if brush.in_color and level != NO_VALUE else None
    return [Segment(text, style), Segment(" " * (room - len(text)))]


def _number(value: float, *, signed: bool) -> str:
    return "·".rjust(_NUMBER) if np.isnan(value) else cell_number(value, signed=signed).rjust(_NUMBER)


class HeadFacts(Drawn):
    """A name and a number a line; the role is the panel's title."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """Those that fit."""
        statistics = scene.reading.statistics_of(scene.view.place)
        if statistics is None:
            return [[Segment("one token alone", DIM)]]
        return [
            [Segment(fit(name, max(0, width - len(value) - 1)) + " ", DIM), Segment(value, BOLD)]
            for name, value in head_facts(statistics)[:height]
        ]


def head_facts(statistics: HeadStatistics) -> list[tuple[str, str]]:
    """Names and numbers of a head; what its kind of attention does not have is left out."""
    facts = [("entropy", f"{statistics.entropy:.2f} nats")]
    if statistics.distance is not None:
        facts.append(("distance", f"{statistics.distance:.1f}"))
    shares = [("largest", statistics.sharpness)]
    shares += [(role, one.share) for role in _ROLES if (one := statistics.of(role)) is not None]
    scores = [(name, getattr(statistics, field)) for name, field in _SCORES]
    return [*facts, *((name, weight(share)) for name, share in [*shares, *scores] if share is not None)]
