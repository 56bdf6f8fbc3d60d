from dataclasses import replace

import pytest
from rich.console import Console

from tests.support.consoles import printed
from tfcli.draw.curve import Plot, Series


def test_what_lies_on_a_tick_stands_on_its_line() -> None:
    """Seven lines are 1.083 … 0 − .083: 1 and .96 stand on that of 1, .7 above that of .5, and 0 on that of 0."""
    marks = tuple(
        Series(name, (x,), (y,), marker=name)
        for x, (name, y) in enumerate(zip("abcde", (1, 0.96, 0.7, 0.5, 0), strict=True))
    )
    lines = printed(Plot(marks, "x", height=7, y_range=(0, 1))).splitlines()[:7]
    assert ["".join(sorted(line.replace(" ", "")[3:])) if line[0] != " " else line.strip(" │") for line in lines] == [
        "ab┤", "", "c", "d┤", "", "", "e┤",
    ]  # fmt: skip


def test_curves_that_share_cells_have_them_in_turn() -> None:
    """Two curves at the two heights of one line: neither is hidden, and each keeps its colour and its own dots."""
    xs = tuple(range(80))
    both = Plot((Series("a", xs, (0.0,) * 80, "red"), Series("b", xs, (0.01,) * 80, "blue")), "x", y_range=(-1, 1))
    console = Console(width=44, color_system="truecolor", force_terminal=True)
    drawn = [segment for segment in console.render(both) if segment.style and "⠀" < segment.text < "⣿"]
    styles = [str(segment.style) for segment in drawn]
    assert styles[:4] == ["red", "blue", "red", "blue"] and len(drawn) == styles.count("red") + styles.count("blue")
    alone = [one for one in console.render(replace(both, series=both.series[:1])) if str(one.style) == "red"]
    assert {segment.text for segment in drawn if str(segment.style) == "red"} <= {one.text for one in alone}


def test_a_plot_without_a_curve_is_empty() -> None:
    assert printed(Plot((), "x")) == ""
    assert printed(Plot((Series("a", (0, 1), (float("nan"),) * 2),), "x")) == ""


@pytest.mark.parametrize("furthest", [1e308, 1.7e308, 1e12])
def test_a_plot_of_the_largest_numbers_has_short_ticks(furthest: float) -> None:
    """The range of ±1e308 is more than a float holds."""
    plot = Plot((Series("a", (0.0, 1.0, 2.0), (furthest, -furthest, 1.0)),), "x", height=7)
    lines = printed(plot, 60).splitlines()
    assert len(lines) >= 8 and max(map(len, lines)) <= 60
    assert any("e+" in line for line in lines)
