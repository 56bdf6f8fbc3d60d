"""What the terminal shows as SVG: every sign where its cell is, the same every time, nothing fetched."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from rich.console import Group
from rich.text import Text

from tfcli.draw.curve import Plot, Series
from tfcli.draw.heatmap import HeatMap
from tfcli.draw.svg import picture_html, picture_svg
from tfcli.records.arrays import frozen

SVG = "{http://www.w3.org/2000/svg}"
# Cells are 8 × 18 pixels behind a margin of 16.
LEFT, TOP = 16, 16


def elements(view: object, tag: str) -> list[dict[str, str]]:
    root = ElementTree.fromstring(picture_svg(view))
    return [{**element.attrib, "text": element.text or ""} for element in root.iter(f"{SVG}{tag}")]


def test_words_stand_at_their_cells_and_are_as_wide_as_their_cells() -> None:
    """ "日本" takes four cells, so what comes behind it and a blank begins at cell 5."""
    assert [(t["text"], t["x"], t["textLength"]) for t in elements(Text("日本 ab  c"), "text")] == [
        ("日本", "16", "32"),
        ("ab", str(LEFT + 5 * 8), "16"),
        ("c", str(LEFT + 9 * 8), "8"),
    ]


def test_a_mark_stays_with_its_letter() -> None:
    [text] = elements(Text("e\u0301a"), "text")
    assert (text["text"], text["textLength"]) == ("e\u0301a", "16")


def test_half_blocks_are_two_rectangles_of_their_colours() -> None:
    """The ink of a ▀ is its upper half, 9 of 18 pixels; the paper lies under the whole cell."""
    page, paper, ink = elements(Text("▀▀", "#010203 on #040506"), "rect")
    assert page["fill"] == "#ffffff"
    assert paper == {"x": "16", "y": "16", "width": "16", "height": "18", "fill": "#040506", "text": ""}
    assert ink == {"x": "16", "y": "16", "width": "16", "height": "9", "fill": "#010203", "text": ""}


@pytest.mark.parametrize(("sign", "width", "height"), [("█", 8, 18), ("▌", 4, 18), ("▏", 1, 18), ("▂", 8, 4.5)])
def test_bars_are_as_long_as_they_say(sign: str, width: float, height: float) -> None:
    bar = elements(Text(sign), "rect")[1]
    assert (float(bar["width"]), float(bar["height"])) == (width, height)


def test_the_dots_of_a_curve_are_circles_and_its_axes_lines() -> None:
    """⠁ (U+2801) is the upper left dot, ⡀ (U+2840) the lower left one."""
    upper, lower = elements(Text("⠁⡀"), "circle")
    assert (float(upper["cx"]), float(upper["cy"])) == (LEFT + 2, TOP + 18 / 8)
    assert (float(lower["cx"]), float(lower["cy"])) == (LEFT + 8 + 2, TOP + 18 * 7 / 8)
    [path] = elements(Text("└"), "path")
    assert path["d"] == "M20 25L20 16M20 25L24 25", "from the middle of the cell up, and to the right"


def test_a_map_is_a_rectangle_a_weight_in_the_colours_of_the_terminal() -> None:
    fills = [rect["fill"] for rect in elements(HeatMap(frozen([[0.0, 1.0]]), "weight"), "rect")]
    assert "#081a48" in fills and "#fdec4a" in fills, "the first and the last colour of the map"


def test_letters_and_backgrounds_can_be_read_on_white() -> None:
    for name in ("yellow", "bright_white", "cyan", "dim"):
        color = elements(Text("x", name), "text")[0]["fill"]
        assert sum(int(color[at : at + 2], 16) for at in (1, 3, 5)) < 3 * 128, name


def test_it_is_the_same_every_time_escapes_everything_and_fetches_nothing() -> None:
    view = Group(Text("<b> & 'c'"), Plot((Series("loss", (0, 1, 2), (3.0, 2.0, 1.0)),), "step"))
    svg = picture_svg(view)
    assert svg == picture_svg(view)
    assert re.findall(r"https?://[^'\"]*", svg) == ["http://www.w3.org/2000/svg"]
    assert ElementTree.fromstring(svg).find(f"{SVG}title").text == "<b> & 'c'"  # type: ignore[union-attr]
    page = picture_html(view)
    assert "<title>&lt;b&gt; &amp; &#x27;c&#x27;</title>" in page
    assert "default-src 'none'" in page


def test_a_picture_is_as_wide_as_its_longest_line() -> None:
    root = ElementTree.fromstring(picture_svg(Group(Text("1234567890"), Text("1"))))
    assert (root.get("width"), root.get("height")) == (str(2 * 16 + 10 * 8), str(2 * 16 + 2 * 18))
