"""Attention matrices as an SVG of plain rectangles, and a page of all heads: the same bytes always, nothing fetched."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.text import Text

from tfcli.draw.colors import NO_VALUE, VIRIDIS, WEIGHTS, hexadecimal, levels, readable_on
from tfcli.draw.safe import in_room, widest
from tfcli.draw.svg import filled_page, picture_svg, rectangle, svg_document
from tfcli.draw.themes import COLOR_SCHEMES, DIM, WHEN_DARK, Theme
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.matrix_view import KIND_NAMES, Matrix, Scale, head_sums, labels, sides

_LETTER = 8  # a monospaced letter of 13 px, with room to spare
_LONGEST = 24
_MOST_NUMBERS = 48  # columns with a number in every cell
_COLUMNS = 190  # of the console that shows more of them
_LINE, _GAP, _SCALE_STEPS = 20, 6, 16
# Its style and its script, with `__DATA__` where the weights go, `__HASH__` where the one script that may run is named.
_PAGE = Path(__file__).with_name("page.html")


def matrices_svg(matrices: Sequence[Matrix], heading: str = "", note: str = "", theme: Theme = "auto") -> str:
    """An SVG document of matrices under one another, each with its title and its scale: queries down, keys across.
    Above all of them `heading`, bold, with the lines of `note` under it. Large ones are as a wide console has them."""
    if max(len(matrix.keys) for matrix in matrices) > _MOST_NUMBERS:
        above = [(heading, "bold"), (note, "dim")] if heading else []
        return picture_svg(Group(*(Text(*words) for words in above), *matrices), _COLUMNS, theme)
    parts, width = _words(heading, note, 24)
    y = 36 + _LINE * len(parts) if parts else 24
    for matrix in matrices:
        drawn, wide, high = _panel(matrix, y)
        parts, width, y = parts + drawn, max(width, wide), y + high
    return svg_document(heading or matrices[0].title, width, y, parts, theme)


def _words(title: str, note: str, y: int) -> tuple[list[str], int]:
    """A title and the lines under it, and their width."""
    looks = [(title, "font-size='15' font-weight='bold'"), *((line, f"fill='{DIM}'") for line in note.split("\n"))]
    there = [(line, look) for line, look in looks if line]
    parts = [f"<text x='16' y='{y + _LINE * n}' {look}>{escape(line)}</text>" for n, (line, look) in enumerate(there)]
    return parts, max((len(line) * (9 if line == title else _LETTER) for line, _ in there), default=0) + 48


def _panel(matrix: Matrix, y: int) -> tuple[list[str], int, int]:
    """One matrix from `y` on: its words, its labels, its cells and its scale; its width and its height."""
    parts, words = _words(matrix.title, matrix.note, y)
    queries, keys = in_room(matrix.queries, 2 * _LONGEST), in_room(matrix.keys, _LONGEST)
    if matrix.cropped:
        sides = ((queries, matrix.rows), (keys, matrix.columns))
        queries, keys = (tuple(map("{} {}".format, *side)) for side in sides)
    cell = 48 if matrix.signed else 34
    half, left = cell // 2, 16 + _LETTER * max(widest(queries), 4)
    top = y + _LINE * len(parts) + round(_LETTER * 0.8 * max(widest(keys), 4)) + 8
    bottom = top + cell * len(queries)
    xs = [left + cell * n + _GAP * (0 < matrix.kept <= n) for n in range(len(keys) + 1)]
    for x, key in zip(xs, keys, strict=False):
        parts.append(f"<text transform='translate({x + half + 3} {top - 8}) rotate(-50)'>{escape(key)}</text>")
    for n, query in enumerate(queries):
        parts.append(f"<text x='{left - 8}' y='{top + cell * n + half + 5}' text-anchor='end'>{escape(query)}</text>")
    table = matrix.colormap.table
    for (row, column), level in np.ndenumerate(levels(matrix.values, *matrix.scale)):
        x, at = xs[column], top + cell * row
        if level == NO_VALUE:
            parts.append(f"<path d='M{x + half - 3} {at + half}h6' stroke='{DIM}'/>")
            continue
        look = f"text-anchor='middle' fill='{hexadecimal(readable_on(table[level]))}'"
        value = matrix.text(float(matrix.values[row, column]))
        number = f"<text x='{x + half}' y='{at + half + 5}' {look}>{value}</text>"
        parts.append(rectangle(x, at, cell, cell, table[level]) + number)
    scale = left + _LETTER * (len(matrix.lowest) + 1)
    parts.append(f"<text x='{left}' y='{bottom + 26}'>{matrix.lowest}</text>")
    for n, level in enumerate(np.linspace(0, len(table) - 1, _SCALE_STEPS).round().astype(int).tolist()):
        parts.append(rectangle(scale + 10 * n, bottom + 14, 10, 14, table[level]))
    legend = "; ".join((matrix.meaning, *matrix.signs))
    told = escape(f"{matrix.highest}, {legend}")
    parts.append(f"<text x='{scale + 8 + 10 * _SCALE_STEPS}' y='{bottom + 26}'>{told}</text>")
    slant = round(_LETTER * 0.6 * widest(keys[-1:]))
    of_scale = left + 10 * _SCALE_STEPS + _LETTER * (len(legend) + 16)
    return parts, max(xs[-1] + slant + 16, words, of_scale), bottom + 56 - y


def attention_html(
    records: Sequence[AttentionRecord], *, layer: int = 0, head: int = 0, scale: Scale = "all", theme: Theme = "auto"
) -> str:
    """A self-contained page: choose kind, layer and head; pointing at a token or a cell shows its weights. It opens on
    the last record, at its focus. Tokens are data, written into the page by the script as text only. `layer`, `head`:
    numbers of the first of every record, where they were narrowed."""
    palettes = {"cividis": WEIGHTS, "viridis": VIRIDIS}
    data = {
        "records": [{**_record(record), "layer": layer, "head": head} for record in records],
        "palettes": {name: [hexadecimal(color) for color in chosen.table] for name, chosen in palettes.items()},
        "focus": [len(records) - 1, *records[-1].focus],
        "scale": scale,
    }
    # "</script>" or "<!--" inside a token must not end the data block.
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")
    looks = {"SCHEME": COLOR_SCHEMES[theme], "WHEN": WHEN_DARK[theme]}
    return filled_page(_PAGE.read_text(encoding="utf-8"), **looks, DATA=text)


def _record(record: AttentionRecord) -> dict[str, Any]:
    """`rows` and `columns` are positions; `sums` are of each row, for those of rounded weights are off."""
    layers, heads = map(range, record.weights.shape[:2])
    return {
        "kind": KIND_NAMES[record.kind],
        "queries": labels(record.query_tokens),
        "asking": labels(record.asking),
        "sides": sides(record),
        "keys": labels(record.key_tokens),
        **{name: getattr(record, name) for name in ("names", "rows", "columns")},
        "weights": [[_rounded(record.visible_weights(layer, head)) for head in heads] for layer in layers],
        "sums": np.round(record.weights.sum(axis=-1, dtype=np.float64), 2).tolist(),
        "note": [[head_sums(record, layer, head) for head in heads] for layer in layers],
    }


def _rounded(weights: NDArray[np.float32]) -> list[list[float | None]]:
    """With four decimals; None where a query may not look, for what is merely small may round to 0."""
    rounded = np.round(weights.astype(np.float64), 4).astype(object)
    rounded[np.isnan(weights)] = None
    return rounded.tolist()
