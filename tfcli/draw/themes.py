"""Light and dark pictures: every colour of words and lines has one for a white ground and one for a dark ground.

The colours of maps are the same on both. A file in the theme "auto" follows its reader's settings, by a style sheet.
"""

import re
from typing import Literal, get_args

Theme = Literal["auto", "light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)

INK, DIM = "#1a1a1a", "#666666"
GROUND, DARK_GROUND = "#ffffff", "#121212"
DARK_COLORS = {
    INK: "#e6e6e6",
    DIM: "#a3a3a3",
    "#b91c1c": "#f87171",
    "#15803d": "#4ade80",
    "#b45309": "#fbbf24",
    "#1d4ed8": "#7aa2ff",
    "#a21caf": "#e879f9",
    "#0e7490": "#22d3ee",
}
"""For each colour of words and lines on white the one on a dark ground."""

WHEN_DARK: dict[Theme, str] = {"auto": "(prefers-color-scheme: dark)", "light": "not all", "dark": "all"}
"""The media query under which a page of a theme is dark."""

COLOR_SCHEMES: dict[Theme, str] = {"auto": "light dark", "light": "light", "dark": "dark"}
"""What a page of a theme tells the browser, for scroll bars and the like."""

_COLORED = re.compile(r"\b(fill|stroke)='(#[0-9a-f]{6})'")
# The notebooks' own marks of a dark page: JupyterLab's, and that of Visual Studio Code.
_DARK_NOTEBOOKS = ("[data-jp-theme-light='false']", ".vscode-dark")


def dark_rules(before: str = "") -> str:
    """Style rules that make a light SVG dark, of the SVGs inside `before` alone where it is given."""
    within = f"{before} " if before else ""
    rules = [f"{within}svg > rect:first-of-type {{ fill: {DARK_GROUND} }}"]
    for light, dark in DARK_COLORS.items():
        rules.append(f'{within}[fill="{light}"] {{ fill: {dark} }}')
        rules.append(f'{within}[stroke="{light}"] {{ stroke: {dark} }}')
    return "\n".join(rules)


def svg_style(theme: Theme) -> str:
    """The style element of an SVG file; only one that follows its reader needs it."""
    return f"<style>@media {WHEN_DARK['auto']} {{\n{dark_rules()}\n}}</style>\n" if theme == "auto" else ""


def page_style(theme: Theme) -> str:
    """The style rules of a page around light SVGs, which make both dark when the page is."""
    ground = f"body, nav {{ background: {DARK_GROUND} }}"
    return f"@media {WHEN_DARK[theme]} {{\n{ground}\n{dark_rules()}\n}}"


def notebook_style() -> str:
    """Style rules for light SVGs of class ``tfcli`` in a notebook, whose page says itself whether it is dark."""
    return "\n".join(dark_rules(f"{mark} .tfcli") for mark in _DARK_NOTEBOOKS)


def darkened(svg: str) -> str:
    """A light SVG document with the colours of a dark one: for programs that read no style sheets, too."""
    return _COLORED.sub(lambda found: f"{found[1]}='{DARK_COLORS.get(found[2], found[2])}'", svg)
