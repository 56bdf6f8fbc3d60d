"""Rows of a matrix or heat map as terminal cells: half blocks, whole cells, or numbers on their colours."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.render.brush import Brush
from tfcli.render.colors import NO_VALUE
from tfcli.render.safe import fit

Line = list[Segment]
_DIM = Style(dim=True)


def half_block_lines(levels: NDArray[np.intp], brush: Brush) -> list[Line]:
    """One column a cell, two rows a line: the upper row is the ink of a ▀, the lower its paper. Needs colour.

    Shape: levels (R, C).
    """
    rows = levels.tolist()
    if len(rows) % 2:
        rows.append([NO_VALUE] * levels.shape[1])
    return [_half_block_line(upper, lower, brush) for upper, lower in zip(rows[::2], rows[1::2], strict=True)]


def _half_block_line(upper: list[int], lower: list[int], brush: Brush) -> Line:
    line = []
    for (top, bottom), run in groupby(zip(upper, lower, strict=True)):
        length = sum(1 for _ in run)
        if top == bottom == NO_VALUE:
            line.append(Segment(" " * length))
        elif top == NO_VALUE:
            line.append(Segment("▄" * length, brush.style(bottom)))
        else:
            line.append(Segment("▀" * length, brush.style(top, bottom)))
    return line


def whole_cell_lines(levels: NDArray[np.intp], brush: Brush, width: int) -> list[Line]:
    """One row a line, each value `width` cells wide: coloured, or as a glyph.

    Shape: levels (R, C).
    """
    if not brush.in_color:
        return _glyph_lines(levels.tolist(), brush, width)
    return [_whole_cell_line(row, brush, width) for row in levels.tolist()]


def _glyph_lines(rows: list[list[int]], brush: Brush, width: int) -> list[Line]:
    glyphs = [brush.glyph(level) * width for level in range(NO_VALUE + 1)]
    tints = [brush.tint(level) for level in range(NO_VALUE + 1)]
    if not any(tints):
        return [[Segment("".join([glyphs[level] for level in row]))] for row in rows]
    return [
        [Segment("".join([glyphs[level] for level in run]), tint) for tint, run in groupby(row, key=tints.__getitem__)]
        for row in rows
    ]


def _whole_cell_line(row: list[int], brush: Brush, width: int) -> Line:
    line = []
    for level, run in groupby(row):
        length = width * sum(1 for _ in run)
        if level == NO_VALUE:
            line.append(Segment(" " * length))
        else:
            line.append(Segment(" " * length, brush.style(NO_VALUE, level)))
    return line


def labelled_row(
    label: str,
    texts: Sequence[str],
    levels: Sequence[int],
    widths: Sequence[int],
    brush: Brush,
    *,
    align: Literal["left", "right", "center"] = "right",
    before: int = 0,
    behind: int = 0,
    faint: Collection[str] = (),
    gaps: Mapping[int, str] = {},
) -> Line:
    """One row of a matrix as text in cells: its label, then each text on the colour of its level.

    Args:
        levels: NO_VALUE for a cell without a colour.
        before, behind: blanks of a cell, of its width, that keep the terminal's own colour.
        faint: texts that stand for no number.
        gaps: what stands before a column.
    """
    line = [Segment(label)] if label else []
    for column, (text, level, width) in enumerate(zip(texts, levels, widths, strict=True)):
        if column in gaps:
            line.append(Segment(gaps[column], _DIM))
        if level == NO_VALUE or text in faint:
            line.append(Segment(fit(text, width, align), _DIM if text in faint else None))
            continue
        style = brush.readable(level) if brush.in_color else None
        blanks = (Segment(" " * before), Segment(" " * behind))
        line += [blanks[0], Segment(fit(text, width - before - behind, align), style), blanks[1]]
    return line


def legend(bar: Line, words: str, gutter: int, width: int) -> RenderResult:
    """A colour scale and what it means: behind `gutter` cells where that fits, else in one line, else in two."""
    words = f"  {words}" if bar else words
    taken = sum(segment.cell_length for segment in bar) + cell_len(words)
    yield Segment(" " * gutter if gutter + taken <= width else "")
    yield from bar
    if taken <= width:
        yield Segment(words, _DIM)
        yield Segment.line()
    else:
        if bar:
            yield Segment.line()
        yield Text(words.strip(), style="dim")


def scale_bar(low: str, high: str, brush: Brush) -> Line:
    """The colour scale from its lowest to its highest value, with both written beside it."""
    top = len(brush.colormap.table) - 1
    if brush.in_color:
        middle = [Segment(" ", brush.style(NO_VALUE, round(i / 15 * top))) for i in range(16)]
    else:
        last = len(brush.glyphs) - 1
        steps = [round(i / last * top) for i in range(last + 1)]
        [drawn] = _glyph_lines([steps], brush, 2)
        middle = [Segment("["), *drawn, Segment("]")]
    return [Segment(f"{low} "), *middle, Segment(f" {high}")]
