"""One head's attention as an SVG of plain rectangles: the same bytes every time, nothing fetched."""

from html import escape

import numpy as np

from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.words import SIDES, labels, row_sums, title, without_masked
from tfcli.render.colors import NO_VALUE, RGB, WEIGHTS, levels, readable_on
from tfcli.render.numbers import weight
from tfcli.render.safe import fit, widest

_CELL = 34
_LETTER = 8  # a monospaced letter of 13 px, with room to spare
_LONGEST = 24
_SCALE_STEPS = 16
_LEGEND = "attention weight; a dot: exactly 0, masked"
_SCALE_WIDTH = 10 * _SCALE_STEPS + _LETTER * (len(_LEGEND) + 8)
_FONT = "font-family='ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace'"


def attention_svg(record: AttentionRecord, layer: int, head: int) -> str:
    """An SVG document: queries down, keys across, a number in every cell, the scale under it."""
    weights = record.weights[layer, head]
    queries = tuple(fit(label, min(_LONGEST, widest((label,)))) for label in labels(record.query_tokens))
    keys = tuple(fit(label, min(_LONGEST, widest((label,)))) for label in labels(record.key_tokens))
    left = 16 + _LETTER * max(widest(queries), 4)
    top = 60 + round(_LETTER * 0.8 * max(widest(keys), 4))
    bottom = top + _CELL * len(queries)
    slant = round(_LETTER * 0.6 * widest(keys[-1:]))
    heading = title(record, layer, head)
    note = f"{SIDES[record.kind]}; {row_sums(weights)}"
    width = max(left + _CELL * len(keys) + slant + 16, _LETTER * len(note) + 32, left + 24 + _SCALE_WIDTH)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{bottom + 48}' "
        f"viewBox='0 0 {width} {bottom + 48}' {_FONT} font-size='13'>",
        f"<title>{escape(heading)}</title>",
        f"<rect width='{width}' height='{bottom + 48}' fill='#ffffff'/>",
        f"<text x='16' y='24' font-size='15' font-weight='bold'>{escape(heading)}</text>",
        f"<text x='16' y='44' fill='#555555'>{escape(note)}</text>",
        *_key_labels(keys, left, top),
        *_query_labels(queries, left, top),
        *_cells(weights, left, top),
        *_scale(float(weights.max(initial=0.0)), left, bottom + 14),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _key_labels(keys: tuple[str, ...], left: int, top: int) -> list[str]:
    return [
        f"<text transform='translate({left + 20 + _CELL * column} {top - 8}) rotate(-50)'>{escape(key)}</text>"
        for column, key in enumerate(keys)
    ]


def _query_labels(queries: tuple[str, ...], left: int, top: int) -> list[str]:
    return [
        f"<text x='{left - 8}' y='{top + _CELL * row + 22}' text-anchor='end'>{escape(query)}</text>"
        for row, query in enumerate(queries)
    ]


def _cells(weights: np.ndarray, left: int, top: int) -> list[str]:
    grid = levels(without_masked(weights), 0.0, float(weights.max(initial=0.0)))
    parts = []
    for row, row_levels in enumerate(grid.tolist()):
        for column, level in enumerate(row_levels):
            x, y = left + _CELL * column, top + _CELL * row
            if level == NO_VALUE:
                parts.append(f"<circle cx='{x + 17}' cy='{y + 17}' r='1.5' fill='#aaaaaa'/>")
                continue
            color = WEIGHTS.table[level]
            parts.append(
                f"<rect x='{x}' y='{y}' width='{_CELL}' height='{_CELL}' fill='{hexadecimal(color)}'/>"
                f"<text x='{x + 17}' y='{y + 22}' text-anchor='middle' "
                f"fill='{hexadecimal(readable_on(color))}'>{weight(float(weights[row, column]))}</text>"
            )
    return parts


def _scale(highest: float, left: int, y: int) -> list[str]:
    bar = [
        f"<rect x='{left + 16 + 10 * i}' y='{y}' width='10' height='14' "
        f"fill='{hexadecimal(WEIGHTS.table[round(i / (_SCALE_STEPS - 1) * (len(WEIGHTS.table) - 1))])}'/>"
        for i in range(_SCALE_STEPS)
    ]
    note = f"{weight(highest)}, {_LEGEND}"
    return [
        f"<text x='{left}' y='{y + 12}'>0</text>",
        *bar,
        f"<text x='{left + 24 + 10 * _SCALE_STEPS}' y='{y + 12}'>{note}</text>",
    ]


def hexadecimal(color: RGB) -> str:
    """A colour as "#rrggbb"."""
    return "#{:02x}{:02x}{:02x}".format(*color)
