"""Maps made smaller keep their peaks; colours stand where they should and can be read."""

import numpy as np
import pytest
from rich.color import Color

from tests.support.consoles import printed
from tfcli.draw.colors import LEVELS, NO_VALUE, SIGNED, VIRIDIS, WEIGHTS, Brush, levels, readable_on, step
from tfcli.draw.heatmap import HeatMap, max_pool

NAN = float("nan")


def test_a_block_becomes_its_largest_value_not_its_mean() -> None:
    # One 0.9 among 0.1: a mean of 2 × 2 would show 0.3. The last column is a block of its own.
    values = np.array([[0.1, 0.9, 0.2], [0.1, 0.1, 0.3]])
    assert max_pool(values, 2, 2).tolist() == [[0.9, 0.3]]


def test_signed_values_keep_the_one_furthest_from_zero() -> None:
    assert max_pool(np.array([[0.5, -0.7, 0.4, -0.3]]), 1, 2).tolist() == [[-0.7, 0.4]]


def test_no_value_gives_way_to_any_value() -> None:
    pooled = max_pool(np.array([[NAN, 0.0, NAN, NAN]]), 1, 2)
    assert pooled[0, 0] == 0.0
    assert np.isnan(pooled[0, 1])


def test_levels_span_the_scale_and_cut_off_outside() -> None:
    found = levels(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, NAN]), 0.0, 1.0)
    assert found.tolist() == [0, 0, LEVELS // 2, LEVELS - 1, LEVELS - 1, NO_VALUE]


def test_an_empty_scale_has_a_level() -> None:
    assert levels(np.array([0.0]), 0.0, 0.0).tolist() == [0]


def test_a_signed_map_is_white_at_zero_blue_below_red_above() -> None:
    middle = levels(np.array([0.0]), -3.0, 3.0)[0]
    assert SIGNED.table[middle] == (248, 248, 248)
    assert Color.from_ansi(step(SIGNED.indexes, middle)).get_truecolor() == (255, 255, 255)
    assert SIGNED.table[0][2] > SIGNED.table[0][0]
    assert SIGNED.table[-1][0] > SIGNED.table[-1][2]
    assert Brush(SIGNED, None).glyph(middle) == "▒", "half as dark as the highest value"


def test_weights_grow_lighter_all_the_way() -> None:
    sums = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in WEIGHTS.table]
    assert sums == sorted(sums)


def test_viridis_grows_lighter_all_the_way_too() -> None:
    sums = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in VIRIDIS.table]
    assert sums == sorted(sums)


def test_sixteen_colours_tint_the_glyphs_of_a_signed_map_and_no_other() -> None:
    """Blue is 34 and red 31 among the escape codes; 0 keeps the terminal's own colour."""
    signed = HeatMap(np.array([[-1.0, 0.0, 1.0]], np.float32), "difference", signed=True)
    scale, _, first = printed(signed, 40, "standard").splitlines()
    assert first == "\x1b[34m██\x1b[0m  \x1b[31m██\x1b[0m"
    assert "[\x1b[34m██▓▓▒▒░░\x1b[0m  \x1b[31m░░▒▒▓▓██\x1b[0m]" in scale, "the darker the further from 0"
    weights = HeatMap(np.array([[0.0, 1.0]], np.float32), "weight")
    assert printed(weights, 40, "standard").splitlines()[2] == "  ██"


def test_glyphs_split_the_scale_evenly() -> None:
    brush = Brush(WEIGHTS, None)
    assert [brush.glyph(round(share * (LEVELS - 1))) for share in (0, 0.25, 0.5, 0.75, 1)] == list(" ░▒▓█")


@pytest.mark.parametrize("color", [*WEIGHTS.table, *VIRIDIS.table, *SIGNED.table])
def test_text_on_every_colour_has_a_contrast_of_at_least_four_and_a_half(color: tuple[int, int, int]) -> None:
    assert contrast(readable_on(color), color) >= 4.5


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    def luminance(color: tuple[int, int, int]) -> float:
        parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("index", "color"), [(16, (0, 0, 0)), (231, (255, 255, 255)), (17, (0, 0, 95)), (196, (255, 0, 0))]
)
def test_xterm_cube(index: int, color: tuple[int, int, int]) -> None:
    assert Color.from_ansi(index).get_truecolor() == color
