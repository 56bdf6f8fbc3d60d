"""The main map as a widget: the cells, what is under the cursor in words, and the scale."""

import numpy as np
from rich.segment import Segment
from textual import events
from textual.message import Message

from tfcli.explorer.drawn import Drawn
from tfcli.explorer.grid import Grid, lay_out
from tfcli.explorer.map_lines import MapPicture
from tfcli.explorer.paint import BOLD, DIM, map_brush
from tfcli.explorer.scene import Scene
from tfcli.render.cells import Line, scale_bar
from tfcli.render.safe import shortened

_FOOTER = 4  # an empty line, the cursor's cell, the scale, and its words where they do not stand beside it
_LONGEST = 16
_SCALES = {"linear": "", "log": "logarithmic", "row": "each row by itself"}


class AttentionMap(Drawn):
    """Queries down, keys across. A click moves the cursor; pointing at a cell says what it is."""

    class Chosen(Message):
        """A cell was clicked."""

        def __init__(self, row: int, column: int) -> None:
            super().__init__()
            self.row = row
            self.column = column

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._grid: Grid | None = None
        self._pointed: tuple[int, int] | None = None

    def show(self, scene: Scene) -> None:
        """Draw this scene; what the mouse has pointed at is forgotten."""
        self._pointed = None
        super().show(scene)

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """The map, then the cursor's cell in words, then the scale."""
        brush = map_brush(scene.view, scene.color_system)
        area = (width, max(3, height - _FOOTER))
        zoomed = scene.view.zoomed
        self._grid = lay_out(scene.queries, scene.keys, area, scene.cursor, zoomed=zoomed, in_color=brush.in_color)
        picture = MapPicture(scene.values, self._grid, brush, scene.queries, scene.keys, scene.cursor)
        lines = picture.lines()[: area[1]]
        scale, words = scale_bar(*scene.values.ends, brush), Segment(self._legend(scene, self._grid), DIM)
        together = [*scale, Segment("  "), words]
        fits = sum(segment.cell_length for segment in together) <= width
        legend = [together] if fits else [scale, [words]]
        return [*lines, [], self._readout(scene), *legend]

    def on_click(self, event: events.Click) -> None:
        place = self._under(event)
        if place is not None:
            self.post_message(self.Chosen(*place))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point_at(self._under(event))

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, place: tuple[int, int] | None) -> None:
        if place != self._pointed:
            self._pointed = place
            self.redraw()

    def _under(self, event: events.MouseEvent) -> tuple[int, int] | None:
        offset = event.get_content_offset(self)
        return None if offset is None or self._grid is None else self._grid.place(*offset)

    def _readout(self, scene: Scene) -> Line:
        row, column = self._pointed or scene.cursor
        query, key = (shortened(label, _LONGEST) for label in (scene.queries[row], scene.keys[column]))
        value = float(scene.values.numbers[row, column])
        if np.isnan(value):
            return [Segment(f"{query} may not look at {key}: exactly 0", BOLD)]
        number = f"{value:+.4f}" if scene.values.signed else f"{value:.4f}"
        return [Segment(f"{query} → {key}  {number}", BOLD), *self._beside(scene, row, column)]

    def _beside(self, scene: Scene, row: int, column: int) -> Line:
        """The weight of a score, the score of a weight."""
        place, scores = scene.view.place, scene.record.scores
        if scene.view.against is not None:
            return []
        if scene.view.quantity == "scores":
            return [Segment(f"  weight {scene.weights[row, column]:.4f}", DIM)]
        if scores is None or scene.view.combined != "head":
            return []
        return [Segment(f"  score {scores[place.layer, place.head, row, column]:+.3g}", DIM)]

    def _legend(self, scene: Scene, grid: Grid) -> str:
        words = [_SCALES[scene.view.scale], scene.values.meaning]
        if grid.factor > 1:
            words.insert(0, f"largest of {grid.factor} × {grid.factor} a cell (z zooms in)")
        elif grid.rows < len(scene.queries) or grid.columns < len(scene.keys):
            words.insert(
                0, f"rows {_span(grid.first_row, grid.rows)}, columns {_span(grid.first_column, grid.columns)}"
            )
        return ", ".join(word for word in words if word)


def _span(first: int, count: int) -> str:
    return f"{first}–{first + count - 1}"
