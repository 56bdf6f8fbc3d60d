"""How a map lies in an area of the screen: cells as large as fit, else half blocks, else pooled or cropped."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from textual import events

from tfcli.draw.colors import NO_VALUE, Brush, levels
from tfcli.draw.heatmap import TALLEST, Line, half_block_lines, max_pool, ruler, scale_bar, vertical, whole_cell_lines
from tfcli.draw.numbers import weight
from tfcli.draw.safe import fit, shortened, widest
from tfcli.explorer.scene import BOLD, DIM, Drawn, Map, Scene, cursor_style, map_brush, mark_style, weights_brush
from tfcli.explorer.state import View
from tfcli.inspection.attention import AttentionRecord

_SIZES = ((12, 6), (12, 5), (10, 5), (10, 4), (8, 4), (8, 3), (6, 3), (6, 2), (4, 2), (4, 1), (2, 1))
"""Widths and heights of a cell, the largest first; from 4 columns on there is room for a number in it."""
_ZOOMED = (4, 1)
_MARKS = 2  # the cursor's mark before a label and the space behind it


@dataclass(frozen=True)
class Grid:
    """Where values are drawn.

    Args:
        gutter: columns before the cells; header: lines above them.
        cell_width, cell_height: columns and lines of a cell; of half blocks, two cells share a line.
        first_row, rows, first_column, columns: the part of the map that is drawn.
        factor: each drawn cell stands for so many rows and columns.
    """

    gutter: int
    header: int
    cell_width: int
    cell_height: int
    rows: int
    columns: int
    halves: bool = False
    first_row: int = 0
    first_column: int = 0
    factor: int = 1

    @property
    def lines(self) -> int:
        """Lines that the cells take."""
        drawn = -(-self.rows // self.factor)
        return -(-drawn // 2) if self.halves else drawn * self.cell_height

    @property
    def is_labelled(self) -> bool:
        """Whether columns have room for the labels of their tokens."""
        return self.cell_width > 1

    def place(self, x: int, y: int) -> tuple[int, int] | None:
        """The row and the column of the map under a point of the area; None beside the cells."""
        x, y = x - self.gutter, y - self.header
        if x < 0 or y < 0 or y >= self.lines or x >= -(-self.columns // self.factor) * self.cell_width:
            return None
        down = y * 2 if self.halves else y // self.cell_height
        row, column = down * self.factor, x // self.cell_width * self.factor
        return self.first_row + min(row, self.rows - 1), self.first_column + min(column, self.columns - 1)

    def point(self, row: int, column: int) -> tuple[int, int]:
        """The drawn cell, from 0, that a row and a column of the map are in."""
        return (row - self.first_row) // self.factor, (column - self.first_column) // self.factor


def lay_out(
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    area: tuple[int, int],
    cursor: tuple[int, int],
    *,
    zoomed: bool,
    in_color: bool,
) -> Grid:
    """The grid of a map in an area.

    Args:
        rows, columns: the labels.
        area: columns and lines of the screen.
    """
    width, height = area
    gutter = min(widest(rows), max(6, width // 5)) + _MARKS
    header = min(widest(columns), TALLEST, max(2, height // 4)) + 1
    room = max(1, width - gutter)
    whole = Grid(gutter, header, 1, 1, len(rows), len(columns))
    for cell_width, cell_height in _SIZES:
        # Labels that fit across their cells need one line; downwards they take what the cells leave.
        left = height - len(rows) * cell_height
        least = 2 if widest(columns) < cell_width else min(header, 3)
        above = 2 if widest(columns) < cell_width else min(widest(columns) + 1, TALLEST + 1, left)
        fits = len(columns) * cell_width <= room and left >= least
        if fits and (cell_width >= _ZOOMED[0] or not zoomed):
            return replace(whole, header=above, cell_width=cell_width, cell_height=cell_height)
    if zoomed:  # as many cells as fit, with the cursor in the middle where it can be
        cell_width, cell_height = _ZOOMED
        down, across = min(len(rows), max(1, height - header)), min(len(columns), max(1, room // cell_width))
        first = around(cursor[0], down, len(rows)), around(cursor[1], across, len(columns))
        return Grid(gutter, header, cell_width, cell_height, down, across, False, *first)
    if in_color and len(columns) <= room and len(rows) <= 2 * (height - header):
        # Few columns grow until the map is as wide as it is high.
        cell_width = max(1, min(8, room // len(columns), len(rows) // len(columns)))
        return replace(whole, header=header if cell_width > 1 else 2, cell_width=cell_width, halves=True)
    lines = max(1, height - 2)  # a ruler of numbers and the cursor's mark stand above
    factor = max(-(-len(columns) // room), -(-len(rows) // (lines * (2 if in_color else 1))))
    return replace(whole, header=2, halves=in_color, factor=factor)


def around(index: int, count: int, total: int) -> int:
    """The first of `count` among `total` with `index` in their middle where it can be."""
    return max(0, min(index - count // 2, total - count))


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
