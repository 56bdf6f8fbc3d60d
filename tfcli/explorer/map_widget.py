"""The attention map of the head that is looked at: labels, cells with their numbers, the cursor and the scale."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from textual import events

from tfcli.explorer.drawn import Drawn
from tfcli.explorer.grid import Grid, lay_out
from tfcli.explorer.paint import BOLD, DIM, cursor_style, map_brush, mark_style
from tfcli.explorer.scene import Scene
from tfcli.explorer.state import View
from tfcli.render.brush import Brush
from tfcli.render.cells import Line, half_block_lines, scale_bar
from tfcli.render.colors import NO_VALUE, levels
from tfcli.render.headers import ruler, vertical
from tfcli.render.numbers import weight
from tfcli.render.pooling import max_pool
from tfcli.render.safe import fit, shortened, widest

_FOOTER = 4  # an empty line, the cursor's cell, the scale, and its words where they do not stand beside it
_LONGEST = 16
_SCALES = {"linear": "", "log": "logarithmic", "row": "each row by itself"}


class AttentionMap(Drawn):
    """Queries down, keys across. A click moves the cursor; pointing at a cell says what it is."""

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
        lines = MapPicture(scene, self._grid, brush).lines()[: area[1]]
        scale, words = scale_bar(*scene.values.ends, brush), Segment(self._legend(scene, self._grid), DIM)
        together = [*scale, Segment("  "), words]
        fits = sum(segment.cell_length for segment in together) <= width
        legend = [together] if fits else [scale, [words]]
        return [*lines, [], self._readout(scene), *legend]

    def clicked(self, scene: Scene, x: int, y: int) -> View | None:
        """The cell under a point."""
        place = None if self._grid is None else self._grid.place(x, y)
        return None if place is None else scene.view.at(scene.record, *place)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        offset = event.get_content_offset(self)
        self._point_at(None if offset is None or self._grid is None else self._grid.place(*offset))

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, place: tuple[int, int] | None) -> None:
        if place != self._pointed:
            self._pointed = place
            self.redraw()

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
            rows = f"rows {grid.first_row}–{grid.first_row + grid.rows - 1}"
            words.insert(0, f"{rows}, columns {grid.first_column}–{grid.first_column + grid.columns - 1}")
        return ", ".join(word for word in words if word)


@dataclass(frozen=True)
class MapPicture:
    """A scene's map on its grid, with the cursor."""

    scene: Scene
    grid: Grid
    brush: Brush

    def lines(self) -> list[Line]:
        """The header, then the cells."""
        shades = self._drawn(self.scene.values.shades)
        grid = levels(shades, self.scene.values.low, self.scene.values.high)
        cells = self._half_blocks(grid) if self.grid.halves else self._cells(grid)
        return [*self._header(), *([*self._label(number), *line] for number, line in enumerate(cells))]

    def _drawn(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The part of the map that is drawn, pooled."""
        first, left = self.grid.first_row, self.grid.first_column
        part = values[first : first + self.grid.rows, left : left + self.grid.columns]
        return max_pool(part, self.grid.factor, self.grid.factor)

    @property
    def _point(self) -> tuple[int, int]:
        return self.grid.point(*self.scene.cursor)

    def _header(self) -> list[Line]:
        grid, width = self.grid, self.grid.cell_width
        shown = self.scene.keys[grid.first_column : grid.first_column + grid.columns]
        if not grid.is_labelled:
            numbers = tuple(range(grid.first_column, grid.first_column + grid.columns, grid.factor))
            above = [ruler(numbers, width)]
        elif widest(self.scene.keys) < width:
            above = ["".join(fit(label, width, "center") for label in shown)]
        else:
            # The tallest labels of all columns keep the map where it is while a crop moves over it.
            lines = vertical(tuple(_shortened(label, grid.header - 1) for label in shown), width)
            above = [""] * (grid.header - 1 - len(lines)) + lines
        column = self._point[1]
        mark = " " * (column * width + (width - 1) // 2) + "▾"
        pad = Segment(" " * grid.gutter)
        styled = [
            [pad, *self._above_cursor(text, column)] if grid.is_labelled else [pad, Segment(text, DIM)]
            for text in above
        ]
        return [*styled, [pad, Segment(mark, mark_style(self.brush.color_system))]]

    def _above_cursor(self, text: str, column: int) -> Line:
        """A line of labels with the cursor's column standing out. Wide characters never cross a column's edge."""
        at = column * self.grid.cell_width
        before, own, behind = Segment.divide(
            [Segment(fit(text, self.grid.columns * self.grid.cell_width))],
            [at, at + self.grid.cell_width, self.grid.columns * self.grid.cell_width],
        )
        mark = mark_style(self.brush.color_system)
        return [*before, *(Segment(segment.text, mark) for segment in own), *behind]

    def _label(self, line: int) -> Line:
        """What stands before a line of cells."""
        grid, width = self.grid, self.grid.gutter - 2
        point = self._point[0]
        if grid.halves:
            own, row = point // 2 == line, line * 2 * grid.factor
        else:
            own, row = point == line // grid.cell_height, line // grid.cell_height * grid.factor
            if line % grid.cell_height != (grid.cell_height - 1) // 2:
                return [Segment(" " * grid.gutter)]
        if own:
            text = fit(self.scene.queries[self.scene.cursor[0]], width, "right")
            return [Segment(f"▸{text} ", mark_style(self.brush.color_system))]
        return [
            Segment(
                f" {fit(self.scene.queries[min(grid.first_row + row, len(self.scene.queries) - 1)], width, 'right')} "
            )
        ]

    def _half_blocks(self, grid: NDArray[np.intp]) -> list[Line]:
        width = self.grid.cell_width
        lines = half_block_lines(grid.repeat(width, axis=1), self.brush)
        row, column = self._point
        other = int(grid[row ^ 1, column]) if row ^ 1 < len(grid) else NO_VALUE
        mark, ink = cursor_style(self.brush.color_system).bgcolor, self.brush.style(other).color
        style = Style.from_color(mark, ink)
        cell = Segment(("▄" if row % 2 else "▀") * width, style)
        edges = [column * width, (column + 1) * width, grid.shape[1] * width]
        before, _, behind = Segment.divide(lines[row // 2], edges)
        lines[row // 2] = [*before, cell, *behind]
        return lines

    def _cells(self, grid: NDArray[np.intp]) -> list[Line]:
        numbers = self._drawn(self.scene.values.numbers)
        lines: list[Line] = []
        for row, (row_levels, row_numbers) in enumerate(zip(grid.tolist(), numbers.tolist(), strict=True)):
            for y in range(self.grid.cell_height):
                lines.append(
                    [
                        self._cell(level, number, y, (row, column) == self._point)
                        for column, (level, number) in enumerate(zip(row_levels, row_numbers, strict=True))
                    ]
                )
        return lines

    def _cell(self, level: int, number: float, y: int, is_cursor: bool) -> Segment:
        """One line of one cell."""
        width, height = self.grid.cell_width, self.grid.cell_height
        is_middle = y == (height - 1) // 2
        if level == NO_VALUE:
            text, style = (fit("·", width, "center") if is_middle else " " * width), DIM
        else:
            style = self.brush.readable(level) if self.brush.in_color else Style.null()
            fill = " " if self.brush.in_color else self.brush.glyph(level)
            text = fill * width
            if is_middle and width >= 4:
                text = fit(cell_number(number, signed=self.scene.values.signed), width, "center")
        if not is_cursor:
            return Segment(text, style)
        mark = cursor_style(self.brush.color_system)
        if height < 3 or width < 6:
            return Segment(text, mark) if is_middle else Segment(text, style)
        left, right = "┏┓" if y == 0 else "┗┛" if y == height - 1 else "┃┃"
        inner = text[1:-1] if 0 < y < height - 1 else "━" * (width - 2)
        return Segment(left + inner + right, style + BOLD)


def cell_number(value: float, *, signed: bool) -> str:
    """A number in at most four cells.

    >>> cell_number(0.874, signed=False), cell_number(-0.25, signed=True), cell_number(-12.3, signed=True)
    ('.87', '-.25', '-12')
    """
    if not signed:
        return weight(value)
    if abs(value) < 0.995:
        return f"{value:+.2f}".replace("0.", ".", 1)
    return f"{value:+.1f}" if abs(value) < 9.95 else f"{value:+.0f}"


def _shortened(label: str, height: int) -> str:
    """As much of a label as stands in so many lines."""
    return label if len(label) <= height else label[: max(1, height - 1)] + "…"
