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
