"""All heads of a kind as small maps, layers down and heads across; the one that is looked at is framed."""

from dataclasses import dataclass

import numpy as np
from rich.segment import Segment

from tfcli.explorer.drawn import Drawn
from tfcli.explorer.grid import around
from tfcli.explorer.paint import DIM, mark_style, weights_brush
from tfcli.explorer.scene import Map, Scene
from tfcli.explorer.state import View
from tfcli.records.attention import AttentionRecord
from tfcli.render.brush import Brush
from tfcli.render.cells import Line, half_block_lines, whole_cell_lines
from tfcli.render.colors import levels
from tfcli.render.pooling import max_pool

_GUTTER = 4
_WIDEST = 12


@dataclass(frozen=True)
class ThumbnailGrid:
    """Thumbnails of `side` columns and `side` / 2 lines with a gap of one around each; of the heads and layers, those
    from `first_head` and `first_layer` on that fit."""

    side: int
    first_layer: int
    layers: int
    first_head: int
    heads: int

    def place(self, x: int, y: int) -> tuple[int, int] | None:
        """The layer and the head under a point; None beside them."""
        layer, head = (y - 1) // (self.side // 2 + 1), (x - _GUTTER) // (self.side + 1)
        if y < 1 or x < _GUTTER or layer >= self.layers or head >= self.heads:
            return None
        return self.first_layer + layer, self.first_head + head


def thumbnail_layout(layers: int, heads: int, area: tuple[int, int], chosen: tuple[int, int]) -> ThumbnailGrid:
    """As large as fits; where even the smallest do not fit, those around the chosen head."""
    width, height = area
    side = min(_WIDEST, (width - _GUTTER - 1) // heads - 1, 2 * ((height - 2) // layers - 1))
    side = max(2, side // 2 * 2)
    down = min(layers, max(1, (height - 2) // (side // 2 + 1)))
    across = min(heads, max(1, (width - _GUTTER - 1) // (side + 1)))
    return ThumbnailGrid(side, around(chosen[0], down, layers), down, around(chosen[1], across, heads), across)


class Thumbnails(Drawn):
    """The overview. A click chooses a head."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._layout_drawn: ThumbnailGrid | None = None
        self._record: AttentionRecord | None = None
        self._pooled: dict[tuple[int, int, int], Map] = {}

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """Numbers of heads above, of layers on the left."""
        layers, heads = scene.record.weights.shape[:2]
        place = scene.view.place
        layout = self._layout_drawn = thumbnail_layout(layers, heads, (width, height), (place.layer, place.head))
        brush = weights_brush(scene.view, scene.color_system)
        most = float(scene.record.weights.max()) if scene.view.one_scale else None
        shown = range(layout.first_head, layout.first_head + layout.heads)
        lines: list[Line] = [[Segment(" " * _GUTTER), Segment("".join(f"{h:<{layout.side + 1}}" for h in shown), DIM)]]
        for layer in range(layout.first_layer, layout.first_layer + layout.layers):
            drawn = [_thumbnail(self._small(scene, layer, head, layout.side), most, brush) for head in shown]
            for number, parts in enumerate(zip(*drawn, strict=True)):
                line = [Segment(f"L{layer:<{_GUTTER - 1}}" if number == 0 else " " * _GUTTER, DIM)]
                for part in parts:
                    line += [*part, Segment(" ")]
                lines.append(line)
            lines.append([Segment(" " * (_GUTTER + layout.heads * (layout.side + 1)))])
        return _framed(lines, layout, (place.layer, place.head), scene.color_system)

    def _small(self, scene: Scene, layer: int, head: int, side: int) -> Map:
        """A head's weights in the size of a thumbnail, kept for as long as the text is."""
        if self._record is not scene.record:
            self._record, self._pooled = scene.record, {}
        size = side if scene.color_system is not None else side // 2
        if (layer, head, size) not in self._pooled:
            self._pooled[layer, head, size] = _resized(scene.record.visible_weights(layer, head), size)
        return self._pooled[layer, head, size]

    def clicked(self, scene: Scene, x: int, y: int) -> View | None:
        """The head under a point."""
        place = None if self._layout_drawn is None else self._layout_drawn.place(x, y)
        return None if place is None else scene.view.to_layer(scene.record, place[0]).to_head(scene.record, place[1])


def _thumbnail(small: Map, highest: float | None, brush: Brush) -> list[Line]:
    """`side` columns and `side` / 2 lines, from 0 to the highest weight of all heads, else to the head's own."""
    grid = levels(small, 0.0, float(np.nan_to_num(small).max()) if highest is None else highest)
    return half_block_lines(grid, brush) if brush.in_color else whole_cell_lines(grid, brush, 2)


def _resized(values: Map, side: int) -> Map:
    """Pooled by max where there are too many values, then every value repeated until the size is reached."""
    small = max_pool(values, -(-values.shape[0] // side), -(-values.shape[1] // side))
    down, across = (np.arange(side) * count // side for count in small.shape)
    return small[np.ix_(down, across)]


def _framed(lines: list[Line], layout: ThumbnailGrid, chosen: tuple[int, int], color_system: str | None) -> list[Line]:
    """A frame in the gaps around the chosen thumbnail."""
    tall = layout.side // 2
    top = (chosen[0] - layout.first_layer) * (tall + 1)
    left = _GUTTER - 1 + (chosen[1] - layout.first_head) * (layout.side + 1)
    style = mark_style(color_system)
    edges = {0: ("┏", "━", "┓"), tall + 1: ("┗", "━", "┛")}
    framed = list(lines)
    for y in range(tall + 2):
        before, first, inside, last, behind = _cut(lines[top + y], left, layout.side)
        if y in edges and top + y > 0:
            corner, bar, end = edges[y]
            first, inside, last = [Segment(corner, style)], [Segment(bar * layout.side, style)], [Segment(end, style)]
        elif y > 0:
            first, last = [Segment("┃", style)], [Segment("┃", style)]
        else:  # the line of numbers
            inside = [Segment(segment.text, style) for segment in inside]
        framed[top + y] = [*before, *first, *inside, *last, *behind]
    return framed


def _cut(line: Line, left: int, side: int) -> list[Line]:
    whole = [*line, Segment(" ")]
    end = sum(segment.cell_length for segment in whole)
    return list(Segment.divide(whole, [left, left + 1, left + 1 + side, left + side + 2, max(end, left + side + 3)]))
