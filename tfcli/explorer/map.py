"""The explorer's heat map and its thumbnails of all heads: how they lie in an area of the screen, and their pictures.
Cells are as large as fit, else half blocks, else pooled or cropped."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from textual import events

from tfcli.draw import heatmap
from tfcli.draw.colors import NO_VALUE, NO_VALUE_MARK, Brush, levels
from tfcli.draw.heatmap import Line, changed, frame, labelled_row, max_pool
from tfcli.draw.numbers import weight
from tfcli.draw.safe import fit, in_room, widest
from tfcli.explorer.scene import BOLD, DIM, Drawn, Map, Scene, cursor_style, map_brush, mark_style
from tfcli.explorer.state import View, around
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.matrix_view import small_map

_SIZES = ((12, 6), (12, 5), (10, 5), (10, 4), (8, 4), (8, 3), (6, 3), (6, 2), (4, 2), (4, 1), (2, 1))
"""Widths and heights of a cell, the largest first; from 4 columns on there is room for a number in it."""
_ZOOMED = (4, 1)
_MARKS = 2  # the cursor's mark before a label and the space behind it
Labels = tuple[str, ...]
Pair = tuple[int, int]
_FOOTER = 4  # an empty line, the cursor's cell, the scale, and its words where they do not stand beside it
_LONGEST = 20  # cells of a label below the map
_SCALES = {"linear": "", "log": "logarithmic", "row": "each row by itself"}
_GUTTER, _WIDEST = 4, 12  # cells before the thumbnails, and of one


@dataclass(frozen=True)
class Grid:
    """Where values are drawn: the part of the map from `first_row` and `first_column` on, behind `gutter` columns and
    under `header` lines. Of half blocks, two cells share a line; a cell stands for `factor` rows and columns."""

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
        drawn = -(-self.rows // self.factor)
        return -(-drawn // 2) if self.halves else drawn * self.cell_height

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


def lay_out(rows: Labels, columns: Labels, area: Pair, cursor: Pair, *, zoomed: bool, in_color: bool) -> Grid:
    """The grid of a map with these labels in an area of so many columns and lines of the screen."""
    width, height = area
    # Labels of rows have a fifth of the width, or what narrow cells with numbers leave of a third.
    left = min(width // 3, width - _ZOOMED[0] * len(columns) - _MARKS)
    gutter = min(widest(rows), max(6, width // 5, left)) + _MARKS
    header = min(widest(columns), heatmap.TALLEST, max(2, height // 4)) + 1
    room = max(1, width - gutter)
    whole = Grid(gutter, header, 1, cell_height=1, rows=len(rows), columns=len(columns))
    size = _cell_size(rows, columns, (room, height), zoomed=zoomed)
    if size is not None:
        cell_width, cell_height = size
        left = height - len(rows) * cell_height
        above = min(_lines_above(columns, cell_width), left)
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


def _cell_size(rows: Labels, columns: Labels, area: Pair, *, zoomed: bool) -> Pair | None:
    """The width and the height of the largest cells that fit; None if none do.

    Cells with numbers leave room for whole labels above them, if they can. All others may cut the
    labels to a few characters.
    """
    room, height = area
    widths_that_fit = [size for size in _SIZES if len(columns) * size[0] <= room]
    with_numbers = [size for size in widths_that_fit if size[0] >= _ZOOMED[0]]
    for cell_width, cell_height in with_numbers:
        if height - len(rows) * cell_height >= _lines_above(columns, cell_width):
            return cell_width, cell_height
    for cell_width, cell_height in with_numbers if zoomed else widths_that_fit:
        if height - len(rows) * cell_height >= min(_lines_above(columns, cell_width), 3):
            return cell_width, cell_height
    return None


def _lines_above(columns: Labels, cell_width: int) -> int:
    """Lines above the cells for whole labels and the cursor's mark: one line if they fit across their cells."""
    if widest(columns) < cell_width:
        return 2
    return min(widest(columns), heatmap.TALLEST) + 1


class AttentionMap(Drawn):
    """Queries down, keys across. A click moves the cursor; pointing at a cell says what it is."""

    _grid = Grid(0, 0, cell_width=1, cell_height=1, rows=0, columns=0)  # nothing is drawn yet
    _pointed: tuple[int, int] | None = None

    def show(self, scene: Scene) -> None:
        self._pointed = None
        super().show(scene)

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        brush = map_brush(scene.view, scene.color_system)
        area = (width, max(3, height - _FOOTER))
        zoomed = scene.view.zoomed
        self._grid = lay_out(scene.queries, scene.keys, area, scene.cursor, zoomed=zoomed, in_color=brush.in_color)
        lines = MapPicture(scene, self._grid, brush).lines()[: area[1]]
        scale = heatmap.scale_bar(*scene.values.ends, brush)
        for sign in self._signs(scene):
            if sum(segment.cell_length for segment in scale) + len(sign) + 2 <= width:
                scale.append(Segment(f"  {sign}", DIM))
        words = Segment(self._legend(scene, self._grid), DIM)
        together = [*scale, Segment("  "), words]
        legend = [together] if sum(segment.cell_length for segment in together) <= width else [scale, [words]]
        return [*lines, [], self._readout(scene), *legend]

    def clicked(self, scene: Scene, x: int, y: int) -> View | None:
        return scene.view.at(scene.record, *place) if (place := self._grid.place(x, y)) else None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        offset = event.get_content_offset(self)
        self._point_at(None if offset is None else self._grid.place(*offset))

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, place: tuple[int, int] | None) -> None:
        if place != self._pointed:
            self._pointed = place
            self.redraw()

    def _readout(self, scene: Scene) -> Line:
        row, column = self._pointed or scene.cursor
        [query], [key] = in_room((scene.queries[row],), _LONGEST), in_room((scene.keys[column],), _LONGEST)
        value = float(scene.values.numbers[row, column])
        if np.isnan(value):
            return [Segment(f"{query} may not look at {key}: exactly 0", BOLD)]
        line = [Segment(f"{query} at {key}  {value:{'+' * scene.values.signed}.4f}", BOLD)]
        view, scores = scene.view, scene.record.scores
        if view.quantity == "scores":
            line.append(Segment(f"  weight {scene.weights[row, column]:.4f}", DIM))
        elif scores is not None and view.against is None and view.combined == "head":
            line.append(Segment(f"  score {scores[view.place.layer, view.place.head, row, column]:+.3g}", DIM))
        return line

    def _signs(self, scene: Scene) -> list[str]:
        """What the signs mean that are there: of a masked cell, and of a space in a token."""
        signs = []
        if np.isnan(scene.values.numbers).any():
            signs.append(f"{NO_VALUE_MARK}: masked")
        if any("·" in label for label in (*scene.queries, *scene.keys)):
            signs.append("·: a space")
        return signs

    def _legend(self, scene: Scene, grid: Grid) -> str:
        words = [_SCALES[scene.view.scale], scene.values.meaning]
        if grid.factor > 1:
            words.insert(0, f"largest of {grid.factor} × {grid.factor} a cell (z zooms in)")
        elif grid.rows < len(scene.queries) or grid.columns < len(scene.keys):
            rows = f"rows {grid.first_row}–{grid.first_row + grid.rows - 1}"
            words.insert(0, f"{rows}, columns {grid.first_column}–{grid.first_column + grid.columns - 1}")
        if scene.record.next_predicted and scene.view.row == len(scene.queries) - 1:
            words.append("?: the model's likeliest")
        return ", ".join(word for word in words if word)


@dataclass(frozen=True)
class MapPicture:
    """A scene's map on its grid, with the cursor."""

    scene: Scene
    grid: Grid
    brush: Brush

    def lines(self) -> list[Line]:
        values = self.scene.values
        grid = levels(self._drawn(values.shades), values.low, values.high)
        cells = self._half_blocks(grid) if self.grid.halves else self._cells(grid, self._drawn(values.numbers))
        return [*self._header(), *([*self._label(number), *line] for number, line in enumerate(cells))]

    def _drawn(self, values: Map) -> Map:
        first, left = self.grid.first_row, self.grid.first_column
        part = values[first : first + self.grid.rows, left : left + self.grid.columns]
        return max_pool(part, self.grid.factor, self.grid.factor)

    @property
    def _point(self) -> tuple[int, int]:
        return self.grid.point(*self.scene.cursor)

    def _header(self) -> list[Line]:
        grid, width = self.grid, self.grid.cell_width
        shown = self.scene.keys[grid.first_column : grid.first_column + grid.columns]
        at, pad, style = self._point[1] * width, Segment(" " * grid.gutter), mark_style(self.brush.color_system)
        mark = [pad, Segment(" " * (at + (width - 1) // 2) + "▾", style)]
        if width == 1:  # no room for labels
            numbers = tuple(range(grid.first_column, grid.first_column + grid.columns, grid.factor))
            return [[pad, Segment(heatmap.ruler(numbers, width), DIM)], mark]
        if widest(self.scene.keys) < width:
            above = ["".join(fit(label, width, "center") for label in shown)]
        else:
            # The tallest labels of all columns keep the map where it is while a crop moves over it.
            high = grid.header - 1
            cut = (label if len(label) <= high else label[: max(1, high - 1)] + "…" for label in shown)
            above = heatmap.vertical(tuple(cut), width)
            above = [""] * (high - len(above)) + above
        # The cursor's column stands out. Wide characters never cross a column's edge.
        lines = ([Segment(fit(text, grid.columns * width))] for text in above)
        return [*([pad, *changed(line, at, width, style)] for line in lines), mark]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return in_room(self.scene.queries, self.grid.gutter - _MARKS)

    def _label(self, line: int) -> Line:
        """What stands before a line of cells."""
        grid, width, queries = self.grid, self.grid.gutter - _MARKS, self._names
        point = self._point[0]
        if grid.halves:
            own, row = point // 2 == line, line * 2 * grid.factor
        elif line % grid.cell_height != (grid.cell_height - 1) // 2:
            return [Segment(" " * grid.gutter)]
        else:
            own, row = point == line // grid.cell_height, line // grid.cell_height * grid.factor
        if own:
            text = fit(queries[self.scene.cursor[0]], width, "right")
            return [Segment(f"▸{text} ", mark_style(self.brush.color_system))]
        return [Segment(f" {fit(queries[min(grid.first_row + row, len(queries) - 1)], width, 'right')} ")]

    def _half_blocks(self, grid: NDArray[np.intp]) -> list[Line]:
        width, (row, column) = self.grid.cell_width, self._point
        lines = heatmap.half_block_lines(grid.repeat(width, axis=1), self.brush)
        other = int(grid[row ^ 1, column]) if row ^ 1 < len(grid) else NO_VALUE
        mark, ink = cursor_style(self.brush.color_system).bgcolor, self.brush.style(other).color
        style, text = Style.from_color(mark, ink), ("▄" if row % 2 else "▀") * width
        lines[row // 2] = changed(lines[row // 2], column * width, width, style, text)
        return lines

    def _cells(self, grid: NDArray[np.intp], numbers: Map) -> list[Line]:
        """Cells with a number in their middle where there is room, else as colours or glyphs; the cursor's framed."""
        width, height, brush = self.grid.cell_width, self.grid.cell_height, self.brush
        middle, lines = (height - 1) // 2, []
        for row, values in zip(grid.tolist(), numbers.tolist(), strict=True):
            fills = [" " if one == NO_VALUE else "" if brush.in_color else brush.glyph(one) * width for one in row]
            texts = fills
            if width >= _ZOOMED[0]:
                texts = [cell_number(value, signed=self.scene.values.signed) for value in values]
            texts = [NO_VALUE_MARK if level == NO_VALUE else text for level, text in zip(row, texts, strict=True)]
            for y in range(height):
                shown = texts if y == middle else fills
                faint = (NO_VALUE_MARK, " ")
                lines.append(labelled_row("", shown, row, [width] * len(row), brush, align="center", faint=faint))
        row, column = self._point
        level, at = int(grid[row, column]), (row * height, column * width)
        style = DIM if level == NO_VALUE else brush.readable(level) if brush.in_color else Style.null()
        if height < 3 or width < 6:
            at_middle = at[0] + middle
            lines[at_middle] = changed(lines[at_middle], at[1], width, cursor_style(brush.color_system))
        else:
            for y in range(at[0], at[0] + height):
                lines[y] = changed(lines[y], at[1], width, style + BOLD)
            frame(lines, *at, width=width, height=height, style=style + BOLD)
        return lines


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


def thumbnail_grid(layers: int, heads: int, area: tuple[int, int], chosen: tuple[int, int]) -> Grid:
    """Thumbnails, twice as wide as high, with a gap behind each, as large as fit; else those around the chosen head."""
    width, height = area
    side = min(_WIDEST, (width - _GUTTER - 1) // heads - 1, 2 * ((height - 2) // layers - 1))
    side = max(2, side // 2 * 2)
    down = min(layers, max(1, (height - 2) // (side // 2 + 1)))
    across = min(heads, max(1, (width - _GUTTER - 1) // (side + 1)))
    first = around(chosen[0], down, layers), around(chosen[1], across, heads)
    return Grid(_GUTTER, 1, side + 1, side // 2 + 1, down, across, False, *first)


class Thumbnails(Drawn):
    """The overview, with numbers of heads above and of layers on the left. A click chooses a head."""

    _grid = AttentionMap._grid
    _record: AttentionRecord | None = None
    _pooled: dict[tuple[int, int, int], Map]  # of the record, by layer, head and size

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        layers, heads = scene.record.weights.shape[:2]
        chosen = scene.view.place.layer, scene.view.place.head
        grid = self._grid = thumbnail_grid(layers, heads, (width, height), chosen)
        brush = map_brush(scene.view, scene.color_system, small=True)
        most = 1.0 if scene.view.one_scale else None
        shown = range(grid.first_column, grid.first_column + grid.columns)
        lines: list[Line] = [[Segment(" " * _GUTTER), Segment("".join(f"{h:<{grid.cell_width}}" for h in shown), DIM)]]
        for layer in range(grid.first_row, grid.first_row + grid.rows):
            small = [self._small(scene, layer, head, grid.cell_width - 1) for head in shown]
            tops = [float(np.nan_to_num(one).max()) if most is None else most for one in small]
            drawn = [small_map(one, top, brush) for one, top in zip(small, tops, strict=True)]
            for number, parts in enumerate(zip(*drawn, strict=True)):
                line = [Segment(f"L{layer:<{_GUTTER - 1}}" if number == 0 else " " * _GUTTER, DIM)]
                for part in parts:
                    line += [*part, Segment(" ")]
                lines.append(line)
            lines.append([Segment(" " * (_GUTTER + grid.columns * grid.cell_width))])
        # A frame in the gaps around the chosen thumbnail, which leaves the line of numbers its numbers.
        numbers, (row, column), style = lines[0], grid.point(*chosen), mark_style(scene.color_system)
        left = _GUTTER - 1 + column * grid.cell_width
        frame(lines, row * grid.cell_height, left, width=grid.cell_width + 1, height=grid.cell_height + 1, style=style)
        if row == 0:
            lines[0] = changed(numbers, left + 1, grid.cell_width - 1, style)
        return lines

    def _small(self, scene: Scene, layer: int, head: int, side: int) -> Map:
        """A head's weights in the size of a thumbnail, kept for as long as the text is."""
        if self._record is not scene.record:
            self._record, self._pooled = scene.record, {}
        size = side if scene.color_system is not None else side // 2
        if (layer, head, size) not in self._pooled:
            # Pooled by max where there are too many values, then every value repeated until the size is reached.
            values = scene.record.visible_weights(layer, head)
            small = max_pool(values, -(-values.shape[0] // size), -(-values.shape[1] // size))
            down, across = (np.arange(size) * count // size for count in small.shape)
            self._pooled[layer, head, size] = small[np.ix_(down, across)]
        return self._pooled[layer, head, size]

    def clicked(self, scene: Scene, x: int, y: int) -> View | None:
        place = self._grid.place(x, y)
        return None if place is None else scene.view.to_layer(scene.record, place[0]).to_head(scene.record, place[1])
