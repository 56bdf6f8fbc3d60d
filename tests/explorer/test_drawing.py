"""Lines as they are drawn, without an app."""

from dataclasses import replace

import pytest

from tests.support.explorer import decoder_reading
from tfcli.draw.heatmap import Line
from tfcli.explorer.map import MapPicture, Thumbnails, cell_number, lay_out, thumbnail_grid
from tfcli.explorer.panels import RowBars, TokenStrip
from tfcli.explorer.scene import CURSOR, Scene, map_brush

TOKENS = ("<s>", *(f"w{index}" for index in range(29)))


def scene(row: int, column: int, *tokens: str, color_system: str | None = "truecolor") -> Scene:
    reading = decoder_reading(*(tokens or TOKENS))
    return Scene("run", "best", reading, replace(reading.first_view(), row=row, column=column), color_system)


def text(line: Line) -> str:
    return "".join(segment.text for segment in line)


@pytest.mark.parametrize(("row", "column"), [(0, 0), (7, 3), (28, 29), (29, 0)])
def test_the_cursor_is_the_one_half_block_in_its_colour(row: int, column: int):
    """30 rows on 15 lines under a ruler and a mark: the cursor is the upper half of an even row, else the lower."""
    shown = scene(row, column)
    grid = lay_out(shown.queries, shown.keys, (60, 17), shown.cursor, zoomed=False, in_color=True)
    brush = map_brush(shown.view, "truecolor")
    lines = MapPicture(shown, grid, brush).lines()
    assert (grid.halves, grid.factor, len(lines)) == (True, 1, 17)
    found = []
    for y, line in enumerate(lines[2:]):
        x = -grid.gutter
        for segment in line:
            color = segment.style.color if segment.style and segment.text[:1] in "▀▄" else None
            if color and color.triplet == CURSOR:
                found.append((2 * y + (segment.text == "▄"), x, len(segment.text)))
            x += segment.cell_length
    assert found == [(row, column, 1)]


def test_long_texts_move_in_the_strip_until_the_cursors_tokens_are_in_sight():
    widget = TokenStrip(id="tokens")
    queries, keys = widget.draw(scene(20, 2), 40, 2)
    # Behind "query " and "… " there are 32 columns: six tokens of 5, and a part of the next.
    assert text(queries).startswith("query … "), text(queries)
    assert text(queries)[8:] == " w14  w15  w16  w17  w18  w19  w20 "
    assert text(keys).startswith("keys   <s>  w0  w1  w2 ")
    [at] = [(start, end) for start, end, index in widget._spans[0] if index == 20]
    assert text(queries)[at[0] : at[1]] == " w19 "


@pytest.mark.parametrize(
    ("value", "signed", "expected"),
    [(0.874, False, ".87"), (1.0, False, "1.0"), (-0.25, True, "-.25"), (0.999, True, "+1.0"), (-12.3, True, "-12")],
)
def test_a_number_fits_into_four_cells(value: float, signed: bool, expected: str):
    assert cell_number(value, signed=signed) == expected


def test_bars_are_as_long_as_their_weights():
    """Of 20 columns: 3 for a label, 5 for a number, 3 between; 9 columns of 8 eighths for a weight of 1."""
    shown = scene(3, 0, "a", "b", "c", "d")
    row = shown.weights[3]
    lines = RowBars(id="row").draw(shown, 16, 4)
    room = 16 - 1 - 5 - 3
    for value, line in zip(row, lines, strict=True):
        bar = text(line)[3 : 3 + room].rstrip()
        eighths = sum({"█": 8, "▉": 7, "▊": 6, "▋": 5, "▌": 4, "▍": 3, "▎": 2, "▏": 1}[block] for block in bar)
        assert eighths == round(float(value) * room * 8)


def test_thumbnails_that_do_not_fit_are_those_around_the_chosen_head():
    layout = thumbnail_grid(12, 12, (20, 12), (6, 11))
    # 15 columns of 3 are 5 heads, and 10 lines of 2 are 5 layers.
    assert (layout.cell_width, layout.rows, layout.columns) == (3, 5, 5)
    assert (layout.first_row, layout.first_column) == (4, 7)
    assert layout.place(4, 1) == (4, 7)
    assert layout.place(4 + 4 * 3, 1 + 4 * 2) == (8, 11)
    assert layout.place(3, 1) is None
    assert layout.place(4, 0) is None


@pytest.mark.parametrize("color_system", ["truecolor", None])
def test_the_frame_is_around_the_chosen_thumbnail(color_system: str | None):
    shown = scene(3, 0, "a", "b", "c", "d", color_system=color_system)
    lines = [text(line) for line in Thumbnails(id="heads").draw(shown, 30, 12)]
    layout = thumbnail_grid(2, 3, (30, 12), (1, 2))
    side = layout.cell_width - 1
    left = 4 + 2 * (side + 1) - 1
    tall = side // 2
    assert lines[tall + 1][left : left + side + 2] == "┏" + "━" * side + "┓"
    assert {line[left] + line[left + side + 1] for line in lines[tall + 2 : 2 * tall + 2]} == {"┃┃"}
    assert lines[2 * tall + 2][left : left + side + 2] == "┗" + "━" * side + "┛"
