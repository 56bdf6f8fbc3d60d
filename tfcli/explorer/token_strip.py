"""The two texts: the query that looks, and the keys in the colours of its weights."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tfcli.explorer.drawn import Drawn
from tfcli.explorer.paint import DIM, cursor_style, map_brush, mark_style
from tfcli.explorer.scene import Scene
from tfcli.explorer.state import View
from tfcli.render.cells import Line
from tfcli.render.colors import NO_VALUE, levels

_NAMES = ("query ", "keys  ")


class TokenStrip(Drawn):
    """Two lines of tokens, moved so that the cursor's are in sight. A click chooses a query or a key."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._spans: list[list[tuple[int, int, int]]] = []

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """Queries above, keys below."""
        brush = map_brush(scene.view, scene.color_system)
        shades = levels(scene.values.shades[scene.view.row], scene.values.low, scene.values.high).tolist()
        mark = cursor_style(scene.color_system)
        queries = [mark if row == scene.view.row else DIM for row in range(len(scene.queries))]
        keys = [
            DIM if level == NO_VALUE else brush.readable(level) if brush.in_color else Style.null() for level in shades
        ]
        keys[scene.view.column] += Style(underline=True, bold=True)
        self._spans, lines = [], []
        for name, tokens, styles, at in (
            (_NAMES[0], scene.queries, queries, scene.view.row),
            (_NAMES[1], scene.keys, keys, scene.view.column),
        ):
            line, spans = _strip(tokens, styles, at, width - len(name))
            lines.append([Segment(name, mark_style(scene.color_system)), *line])
            self._spans.append([(start + len(name), end + len(name), index) for start, end, index in spans])
        return lines

    def clicked(self, scene: Scene, x: int, y: int) -> View | None:
        """The query or the key under a point; the other of the two stays as it is."""
        row, column = scene.cursor
        for start, end, index in self._spans[y] if y < len(self._spans) else []:
            if start <= x < end:
                return scene.view.at(scene.record, *((index, column) if y == 0 else (row, index)))
        return None


def _strip(
    tokens: Sequence[str], styles: Sequence[Style], at: int, room: int
) -> tuple[Line, list[tuple[int, int, int]]]:
    """Tokens from the first one that leaves token `at` in sight, and where on the line each of them is."""
    first, used = at, cell_len(tokens[at]) + 2
    while first > 0 and used + cell_len(tokens[first - 1]) + 2 <= room - 2 * (first > 1):
        first -= 1
        used += cell_len(tokens[first]) + 2
    line: Line = [Segment("… ", DIM)] if first else []
    start, spans = 2 * bool(first), []
    for index in range(first, len(tokens)):
        length = cell_len(tokens[index]) + 2
        line.append(Segment(f" {tokens[index]} ", styles[index]))
        spans.append((start, start + length, index))
        start += length
        if start >= room:
            break
    return line, spans
