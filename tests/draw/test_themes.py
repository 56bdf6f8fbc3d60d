"""Light and dark pictures: words that can be read on either ground, and colours of maps that stay."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from rich.console import Group
from rich.text import Text

from tfcli.draw.colors import RGB, SIGNED, VIRIDIS, WEIGHTS, hexadecimal, readable_on
from tfcli.draw.heatmap import HeatMap
from tfcli.draw.svg import picture_html, picture_svg
from tfcli.draw.themes import DARK_COLORS, DARK_GROUND, GROUND, THEMES, Theme
from tfcli.records.arrays import frozen

VIEW = Group(Text("bank", "bold"), Text("note", "dim"), Text("cyan", "cyan"), HeatMap(frozen([[0.0, 1.0]]), "weight"))


def contrast(first: str, second: str) -> float:
    """The ratio of relative luminances (WCAG 2.1, section 1.4.3)."""

    def luminance(color: str) -> float:
        total = 0.0
        for weight, at in ((0.2126, 1), (0.7152, 3), (0.0722, 5)):
            share = int(color[at : at + 2], 16) / 255
            total += weight * (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4)
        return total

    darker, lighter = sorted(map(luminance, (first, second)))
    return (lighter + 0.05) / (darker + 0.05)


def test_words_have_the_contrast_of_running_text_on_both_grounds() -> None:
    for light, dark in DARK_COLORS.items():
        assert contrast(light, GROUND) >= 4.5, light
        assert contrast(dark, DARK_GROUND) >= 4.5, dark


@pytest.mark.parametrize("colors", [WEIGHTS.table, SIGNED.table, VIRIDIS.table])
def test_numbers_have_it_on_every_cell_and_no_cell_changes_with_the_theme(colors: tuple[RGB, ...]) -> None:
    for color in colors:
        assert contrast(hexadecimal(readable_on(color)), hexadecimal(color)) >= 4.5
        assert hexadecimal(color) not in DARK_COLORS


def colors_of(svg: str) -> set[str]:
    root = ElementTree.fromstring(svg)
    return {one.get(name, "") for one in root.iter() for name in ("fill", "stroke")} - {""}


def test_a_dark_svg_needs_no_style_sheet() -> None:
    """It has no light colour left, and the map's own ones."""
    svg = picture_svg(VIEW, theme="dark")
    assert "<style>" not in svg
    found = colors_of(svg)
    assert {DARK_GROUND, DARK_COLORS["#1a1a1a"], "#081a48", "#fdec4a"} <= found
    assert not found & {*DARK_COLORS, GROUND}


def test_a_light_svg_has_none_and_auto_follows_the_reader() -> None:
    light, auto = (picture_svg(VIEW, theme=theme) for theme in ("light", "auto"))  # type: ignore[arg-type]
    assert "<style>" not in light and GROUND in colors_of(light)
    assert re.sub("<style>.*</style>\n", "", auto, flags=re.DOTALL) == light
    assert "@media (prefers-color-scheme: dark)" in auto


@pytest.mark.parametrize("theme", THEMES)
def test_what_a_text_says_of_colours_stays(theme: Theme) -> None:
    said = "fill='#1a1a1a' __STYLE__ @media (prefers-color-scheme: dark)"
    root = ElementTree.fromstring(picture_svg(Text(said), theme=theme))
    words = "".join(one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text"))
    assert words == said.replace(" ", "")


@pytest.mark.parametrize(
    ("theme", "media", "scheme"),
    [("auto", "(prefers-color-scheme: dark)", "light dark"), ("light", "not all", "light"), ("dark", "all", "dark")],
)
def test_a_page_says_when_it_is_dark(theme: Theme, media: str, scheme: str) -> None:
    page = picture_html(VIEW, theme=theme)
    assert f"@media {media} {{" in page and f"color-scheme: {scheme} " in page
    assert "__" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
