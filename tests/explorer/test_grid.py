"""How a map lies in an area."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcli.explorer.map import lay_out


def labels(count: int) -> tuple[str, ...]:
    return tuple(f"t{index}" for index in range(count))


def grid(rows: int, columns: int, area: tuple[int, int], *, zoomed: bool = False, cursor: tuple[int, int] = (0, 0)):
    return lay_out(labels(rows), labels(columns), area, cursor, zoomed=zoomed, in_color=True)


def test_few_tokens_get_large_cells_and_many_get_half_blocks_then_pools():
    sizes = [(12, 6), (4, 2), (2, 1), (1, 1)]
    for tokens, size in zip((4, 12, 24, 50), sizes, strict=True):
        found = grid(tokens, tokens, (70, 28))
        assert (found.cell_width, found.cell_height) == size, tokens
    assert (found.halves, found.factor) == (True, 1)
    assert grid(300, 300, (70, 28)).factor == 6, "300 rows on 26 lines of two are 52 rows: 300 / 52 rounded up"


def test_a_zoomed_map_is_cropped_around_the_cursor():
    found = grid(300, 300, (70, 28), zoomed=True, cursor=(150, 299))
    # Labels of 4 letters take 5 lines with the mark, which leaves 23; of 70 columns, 6 are gutter: 16 cells of 4.
    assert (found.rows, found.columns, found.factor) == (23, 16, 1)
    assert (found.first_row, found.first_column) == (150 - 11, 300 - 16)


@given(
    rows=st.integers(1, 90),
    columns=st.integers(1, 90),
    area=st.tuples(st.integers(12, 120), st.integers(6, 50)),
    at=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    zoomed=st.booleans(),
    in_color=st.booleans(),
)
def test_every_cell_fits_and_a_click_finds_what_is_drawn(
    rows: int, columns: int, area: tuple[int, int], at: tuple[float, float], zoomed: bool, in_color: bool
):
    cursor = round(at[0] * (rows - 1)), round(at[1] * (columns - 1))
    found = lay_out(labels(rows), labels(columns), area, cursor, zoomed=zoomed, in_color=in_color)
    assert found.header + found.lines <= area[1]
    row, column = found.point(*cursor)
    x = found.gutter + column * found.cell_width
    y = found.header + (row // 2 if found.halves else row * found.cell_height)
    clicked = found.place(x, y)
    assert clicked is not None
    assert x < area[0]
    # A drawn cell stands for `factor` rows, and half blocks put two of them on a line.
    assert 0 <= cursor[0] - clicked[0] < found.factor * (2 if found.halves else 1)
    assert 0 <= cursor[1] - clicked[1] < found.factor
    assert found.place(found.gutter - 1, y) is None
    assert found.place(x, found.header - 1) is None


@pytest.mark.parametrize("area", [(82, 32), (82, 28), (60, 24)])
def test_cells_with_numbers_leave_room_for_whole_column_labels(area: tuple[int, int]) -> None:
    """The longest label has 9 characters and needs 9 lines; the cursor's mark needs one more."""
    names = ("<s>", "T", "om", "·swam", "·across", "·riversid", "·bank")
    grid = lay_out(names, names, area, (0, 0), zoomed=False, in_color=True)
    assert grid.cell_width >= 4
    assert grid.header >= (2 if grid.cell_width > 9 else 10)
    assert grid.header + grid.lines <= area[1]
