"""Attention matrices as an SVG of plain rectangles, and a page of all heads: the same bytes always, nothing fetched."""

import json
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.draw.colors import NO_VALUE, VIRIDIS, WEIGHTS, hexadecimal, levels, readable_on
from tfcli.draw.safe import in_room, widest
from tfcli.draw.svg import filled_page, rectangle, svg_document
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.matrix_view import KIND_NAMES, Matrix, head_sums, labels, pooled, sides

_CELL = 34
_SIGNED_CELL = 48
_LETTER = 8  # a monospaced letter of 13 px, with room to spare
_LONGEST = 24
_MOST_NUMBERS = 48  # columns with a number in every cell
_MOST_CELLS = 400  # columns of their own; more are pooled
_MAP_SIDE = 1200  # of a map without numbers
_LINE = 20
_GAP = 6
_SCALE_STEPS = 16


def matrices_svg(matrices: Sequence[Matrix], heading: str = "", note: str = "") -> str:
    """An SVG document of matrices under one another, each with its title and its scale: queries down, keys across.
    Above all of them `heading`, bold, with the lines of `note` under it."""
    panels = [_Panel(matrix) for matrix in matrices]
    above = [line for line in (heading, *note.split("\n")) if line]
    parts = [_line(text, 24 + _LINE * n, bold=n == 0 and bool(heading)) for n, text in enumerate(above)]
    y = 36 + _LINE * len(above) if above else 24
    for panel in panels:
        parts += panel.draw(y)
        y += panel.height
    width = max(_LETTER * max(map(len, above), default=0) + 32, *(panel.width for panel in panels))
    return svg_document(heading or matrices[0].title, width, y, parts, " shape-rendering='crispEdges'")


class _Panel:
    """One matrix: its words, its labels, its cells and its scale, from a `y` on."""

    def __init__(self, matrix: Matrix) -> None:
        self.cell = _SIGNED_CELL if matrix.signed else _CELL
        self.numbered = len(matrix.keys) <= _MOST_NUMBERS
        if not self.numbered:
            matrix = pooled(matrix, -(-(len(matrix.keys) - matrix.kept) // _MOST_CELLS))
            self.cell = max(2, _MAP_SIDE // len(matrix.keys))
        self.matrix = matrix
        self.words = [line for line in (matrix.title, *matrix.note.split("\n")) if line]
        self.queries = self._labels(matrix.queries, matrix.rows, 2 * _LONGEST)
        self.keys = self._labels(matrix.keys, matrix.columns)
        # Where the cells begin.
        self.left = 16 + _LETTER * max(widest(self.queries), 4)
        self.top = _LINE * len(self.words) + round(_LETTER * 0.8 * max(widest(self.keys), 4)) + 8
        self.height = self.top + self.cell * len(self.queries) + 56
        self.legend = matrix.meaning
        if np.isnan(matrix.values).any():
            self.legend += f"; {'a dot' if self.numbered else 'white'}: {matrix.empty}"
        slant = round(_LETTER * 0.6 * widest(self.keys[-1:]))
        words = _LETTER * max(map(len, self.words), default=0) + 32
        scale = self.left + 10 * _SCALE_STEPS + _LETTER * (len(self.legend) + 16)
        self.width = max(self._x(len(self.keys)) + slant + 16, words, scale)

    def draw(self, y: int) -> Iterator[str]:
        for number, words in enumerate(self.words):
            yield _line(words, y + _LINE * number, bold=number == 0 and bool(self.matrix.title))
        step = max(1, -(-14 // self.cell))
        for column in range(0, len(self.keys), step):
            x = self._x(column) + self.cell // 2 + 3
            label = escape(self.keys[column])
            yield f"<text transform='translate({x} {y + self.top - 8}) rotate(-50)'>{label}</text>"
        for row in range(0, len(self.queries), step):
            middle = y + self.top + self.cell * row + self.cell // 2 + 5
            yield f"<text x='{self.left - 8}' y='{middle}' text-anchor='end'>{escape(self.queries[row])}</text>"
        grid = levels(self.matrix.values, *self.matrix.scale).tolist()
        for row, row_levels in enumerate(grid):
            yield from self._row(row, row_levels, y + self.top + self.cell * row)
        yield from self._scale(y + self.top + self.cell * len(self.queries) + 14)

    def _row(self, row: int, row_levels: list[int], y: int) -> Iterator[str]:
        if not self.numbered:
            yield from self._run(row_levels, y)
            return
        half = self.cell // 2
        for column, level in enumerate(row_levels):
            x = self._x(column)
            if level == NO_VALUE:
                yield f"<circle cx='{x + half}' cy='{y + half}' r='1.5' fill='#aaaaaa'/>"
                continue
            color = self.matrix.colormap.table[level]
            number = self.matrix.text(float(self.matrix.values[row, column]))
            ink = hexadecimal(readable_on(color))
            number = f"<text x='{x + half}' y='{y + half + 5}' text-anchor='middle' fill='{ink}'>{number}</text>"
            yield rectangle(x, y, self.cell, self.cell, color) + number

    def _run(self, row_levels: list[int], y: int) -> Iterator[str]:
        """Neighbours of one colour as one rectangle; the first keys end theirs."""
        kept = self.matrix.kept
        for (level, _), run in groupby(range(len(row_levels)), key=lambda column: (row_levels[column], column >= kept)):
            first, *rest = run
            if level != NO_VALUE:
                color = self.matrix.colormap.table[level]
                yield rectangle(self._x(first), y, self.cell * (1 + len(rest)), self.cell, color)

    def _scale(self, y: int) -> Iterator[str]:
        table, first = self.matrix.colormap.table, self.matrix.lowest
        left = self.left + _LETTER * (len(first) + 1)
        yield f"<text x='{self.left}' y='{y + 12}'>{first}</text>"
        for step in range(_SCALE_STEPS):
            color = table[round(step / (_SCALE_STEPS - 1) * (len(table) - 1))]
            yield rectangle(left + 10 * step, y, 10, 14, color)
        note = escape(f"{self.matrix.text(self.matrix.scale[1])}, {self.legend}")
        yield f"<text x='{left + 8 + 10 * _SCALE_STEPS}' y='{y + 12}'>{note}</text>"

    def _x(self, column: int) -> int:
        kept = self.matrix.kept
        return self.left + self.cell * column + (_GAP if kept and column >= kept else 0)

    def _labels(self, labels: tuple[str, ...], positions: tuple[int, ...], longest: int = _LONGEST) -> tuple[str, ...]:
        short = in_room(labels, longest)
        if self.numbered and not self.matrix.cropped:
            return short
        return tuple(f"{label} {position}" for label, position in zip(short, positions, strict=True))


def _line(text: str, y: int, *, bold: bool) -> str:
    look = "font-size='15' font-weight='bold'" if bold else "fill='#555555'"
    return f"<text x='16' y='{y}' {look}>{escape(text)}</text>"


# Its style and its script, with `__DATA__` where the weights go, `__HASH__` where the one script that may run is named.
_PAGE = Path(__file__).with_name("page.html")


def attention_html(records: Sequence[AttentionRecord], *, layer: int = 0, head: int = 0) -> str:
    """A self-contained page: choose kind, layer and head; pointing at a token or a cell shows its weights.

    It opens on the last record, at its focus. Tokens are data, written into the page by the script as text only.
    `layer`, `head`: numbers of the first of every record, where they were narrowed.
    """
    last = records[-1]
    palettes = {"cividis": WEIGHTS, "viridis": VIRIDIS}
    data = {
        "records": [{**_record(record), "layer": layer, "head": head} for record in records],
        "palettes": {name: [hexadecimal(color) for color in chosen.table] for name, chosen in palettes.items()},
        "focus": [len(records) - 1, *last.focus],
    }
    # "</script>" or "<!--" inside a token must not end the data block.
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")
    return filled_page(_PAGE.read_text(encoding="utf-8"), DATA=text)


def _record(record: AttentionRecord) -> dict[str, Any]:
    """`rows` and `columns` are positions; `sums` are of each row, for those of rounded weights are off."""
    layers, heads = map(range, record.weights.shape[:2])
    return {
        "kind": KIND_NAMES[record.kind],
        "queries": labels(record.query_tokens),
        "asking": labels(record.asking),
        "sides": sides(record),
        "keys": labels(record.key_tokens),
        "names": record.names,
        "rows": record.rows,
        "columns": record.columns,
        "weights": [[_rounded(record.visible_weights(layer, head)) for head in heads] for layer in layers],
        "sums": np.round(record.weights.sum(axis=-1, dtype=np.float64), 2).tolist(),
        "note": [[head_sums(record, layer, head) for head in heads] for layer in layers],
    }


def _rounded(weights: NDArray[np.float32]) -> list[list[float | None]]:
    """With four decimals; None where a query may not look, for what is merely small may round to 0."""
    rounded = np.round(weights.astype(np.float64), 4).astype(object)
    rounded[np.isnan(weights)] = None
    return rounded.tolist()
