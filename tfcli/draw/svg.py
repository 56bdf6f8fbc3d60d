"""SVG and web pages of anything that the terminal shows: cell by cell, the same bytes every time, nothing fetched.

What a terminal builds from letters (half blocks, bars, frames, the dots of curves) is drawn as rectangles, lines and
circles, so that no font decides how it looks. Words stay text: they can be searched and copied.
"""

import io
from base64 import b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

from tfcli.draw import Stepwise
from tfcli.draw.colors import RGB, hexadecimal
from tfcli.draw.safe import printable, shortened
from tfcli.draw.themes import COLOR_SCHEMES, DARK_GROUND, GROUND, INK, Theme, darkened, page_style, svg_style

_FONT = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace"


def svg_document(title: str, width: int, height: int, parts: Iterable[str], theme: Theme = "auto") -> str:
    """Elements on a ground of their own, words in a monospaced font of 13 px.

    Args:
        title: What the document shows.
        width: Width of the ground in pixels.
        height: Height of the ground in pixels.
        parts: Elements with the colours that they have on white.
        theme: "auto" adds a style sheet, by which readers with dark screens see the picture on a dark ground.
    """
    # Crisp edges leave no seam between neighbouring rectangles.
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"font-family='{_FONT}' font-size='13' fill='{INK}' shape-rendering='crispEdges'>"
    )
    ground = f"<rect width='{width}' height='{height}' fill='{DARK_GROUND if theme == 'dark' else GROUND}'/>"
    before, drawn = f"{head}\n<title>{escape(title)}</title>\n{svg_style(theme)}{ground}", "\n".join(parts)
    if theme == "dark":
        before, drawn = darkened(before), darkened(drawn)
    return f"{before}\n{drawn}\n</svg>\n"


WIDTH = 120
_NARROW = 44  # columns, in 384 pixels
_CELL, _LINE, _MARGIN = 8, 18, 16
_INK, _PAPER, _DIM = (26, 26, 26), (255, 255, 255), (102, 102, 102)
# The sixteen colours of a terminal, dark enough to be read on white; `themes.py` has those for a dark ground.
_SIXTEEN: list[RGB] = [
    *((26, 26, 26), (185, 28, 28), (21, 128, 61), (180, 83, 9)),
    *((29, 78, 216), (162, 28, 175), (14, 116, 144), (102, 102, 102)),
]
_PAGE = (files(__package__) / "page.html").read_text("utf-8")
_THEME = TerminalTheme(_PAPER, _INK, _SIXTEEN, _SIXTEEN)
# Blocks as (left, top, right, bottom), in shares of a cell.
_BLOCKS = {"▀": (0.0, 0.0, 1.0, 0.5)}
_BLOCKS |= {letter: (0.0, 0.0, (8 - n) / 8, 1.0) for n, letter in enumerate("▉▊▋▌▍▎▏", start=1)}
_BLOCKS |= {letter: (0.0, 1.0 - n / 8, 1.0, 1.0) for n, letter in enumerate("▁▂▃▄▅▆▇█", start=1)}
# Lines of frames and axes (Unicode block U+2500): each sign with the arms it has: up, right, down, left.
_BOX_SIGNS = (
    "│ud ─lr ┌rd ┐ld └ur ┘ul ├urd ┤uld ┬lrd ┴ulr ┼ulrd ╭rd ╮ld ╰ur ╯ul ╷d ╵u ╶r ╴l "
    "┃ud ━lr ┏rd ┓ld ┗ur ┛ul ┡urd ┩uld ╇ulrd ┳lrd"
)
_ARMS = {sign[0]: sign[1:] for sign in _BOX_SIGNS.split()}
_HEAVY = "┃━┏┓┗┛┡┩╇┳"
# A Braille cell's dots as (column, row), by bit (Unicode block U+2800).
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))


def picture_svg(view: Any, width: int = WIDTH, theme: Theme = "auto") -> str:
    """An SVG document of what a console of `width` columns shows of `view`, in 24-bit colour."""
    lines = _console_lines(view, width)
    columns = max((sum(segment.cell_length for segment in line) for line in lines), default=0)
    wide, high = 2 * _MARGIN + _CELL * columns, 2 * _MARGIN + _LINE * len(lines)
    title = "".join(segment.text for segment in lines[0]).strip() if lines else ""
    parts = [part for number, line in enumerate(lines) for part in _line(line, _MARGIN + _LINE * number)]
    return svg_document(title, wide, high, parts, theme)


def picture_html(view: Any, width: int = WIDTH, theme: Theme = "auto") -> str:
    """A web page with the same picture, and that of a narrow console for a narrow screen; the steps of a stepwise view
    one at a time, or all of them. It needs no network."""
    parts = view.parts() if isinstance(view, Stepwise) else [view]
    pictures = ["".join(picture_svg(part, columns, "light") for columns in (width, _NARROW)) for part in parts]
    sections = [f"<section{' data-step' * (number > 0)}>\n{one}</section>\n" for number, one in enumerate(pictures)]
    title = pictures[0].partition("<title>")[2].partition("</title>")[0]
    looks = {"SCHEME": COLOR_SCHEMES[theme], "STYLE": page_style(theme)}
    return filled_page(_PAGE, **looks, TITLE=title, PICTURES="".join(sections))


def filled_page(page: str, **parts: str) -> str:
    """A page with its parts in the places of ``__NAME__``, whose one script may run."""
    script = page.partition("<script>")[2].partition("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    for name, part in {"HASH": f"sha256-{digest}", **parts}.items():
        page = page.replace(f"__{name}__", part)
    return page


def picture_text(view: Any) -> str:
    """What a console of 80 columns without colours shows."""
    file = io.StringIO()
    Console(width=80, file=file, color_system=None, force_jupyter=False, markup=False).print(view)
    return file.getvalue()


def captioned(document: str, command: str, run: str = "", text: str = "") -> str:
    """An SVG document or a page that says what it shows and how it was made: text and run in its title, and the
    command in the description of an SVG, on the last line of a page."""
    texts = [f"“{printable(shown)}”" if text else "" for shown in (shortened(text[:200], 80), text)]
    short, whole = ([escape(name, quote=False) for name in (one, printable(run)) if name] for one in texts)
    names = [*whole, escape(printable(command), quote=False)]
    before, title, rest = document.partition("</title>")
    document = " · ".join([before, *short]) + title
    if not before.startswith("<svg"):
        body, end, after = rest.rpartition("</body>")
        line = "font: 12px/1.5 ui-monospace, monospace; margin: 16px; overflow-wrap: anywhere; opacity: .75"
        return f'{document}{body}<footer style="{line}">{" · ".join(names)}</footer>\n{end}{after}'
    return f"{document}\n<desc>{' · '.join(names)}</desc>{rest}"


def _console_lines(view: Any, width: int) -> list[list[Segment]]:
    """What the console shows, without the blanks at the ends of lines and the empty lines at the end."""
    paper: Any = {"width": width, "height": 1000, "file": io.StringIO(), "force_jupyter": False, "markup": False}
    console = Console(**paper, force_terminal=True, color_system="truecolor", no_color=False, legacy_windows=False)
    lines = [[part for part in line if not part.control] for line in console.render_lines(view, pad=False)]
    for line in lines:
        while line and not line[-1].text.strip() and not (line[-1].style and line[-1].style.bgcolor):
            line.pop()
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _look(style: Style | None) -> tuple[RGB, RGB | None, str]:
    """The ink and the paper of a segment, and the attributes of its letters."""
    style = style or Style.null()
    ink, paper = _rgb(style.color) or (_DIM if style.dim else _INK), _rgb(style.bgcolor)
    if style.reverse:
        ink, paper = paper or _PAPER, ink
    attributes = " font-weight='bold'" * bool(style.bold) + " text-decoration='underline'" * bool(style.underline)
    return ink, paper, attributes


def _line(line: list[Segment], top: int) -> Iterator[str]:
    left = _MARGIN
    for segment in line:
        ink, paper, attributes = _look(segment.style)
        if paper is not None:
            yield rectangle(left, top, _CELL * segment.cell_length, _LINE, paper)
        for piece in _pieces(segment.text):
            yield from _piece(piece, left, top, ink, attributes)
            left += _CELL * cell_len(piece)


def _pieces(text: str) -> Iterator[str]:
    """Parts that are drawn in one go: letters of one width together with their marks, signs one kind at a time."""
    letters: list[tuple[Any, str]] = []
    for character in text:
        kind: Any = cell_len(character)
        if kind == 0 and letters:
            kind = letters[-1][0]
        elif character == " " or character in _BLOCKS or character in _ARMS or "\u2800" < character <= "\u28ff":
            kind = character
        letters.append((kind, character))
    for _, group in groupby(letters, key=lambda letter: letter[0]):
        yield "".join(character for _, character in group)


def _piece(piece: str, left: int, top: int, ink: RGB, attributes: str) -> Iterator[str]:
    first, cells = piece[0], cell_len(piece)
    if first == " ":
        return
    if first in _BLOCKS:
        _, y0, wide, y1 = _BLOCKS[first]
        for cell in range(1 if wide == 1.0 else cells):
            width = _CELL * (cells if wide == 1.0 else wide)
            yield rectangle(left + _CELL * cell, top + _LINE * y0, width, _LINE * (y1 - y0), ink)
    elif first in _ARMS:
        for cell in range(cells):
            yield _box_lines(first, left + _CELL * cell, top, ink)
    elif "\u2800" < first <= "\u28ff":
        for cell in range(cells):
            yield from _dots(ord(first) - 0x2800, left + _CELL * cell, top, ink)
    else:
        fill = "" if ink == _INK else f" fill='{hexadecimal(ink)}'"
        yield (
            f"<text x='{left}' y='{top + 13}' textLength='{_CELL * cells}' lengthAdjust='spacingAndGlyphs'"
            f"{fill}{attributes}>{escape(piece)}</text>"
        )


def _box_lines(sign: str, left: int, top: int, ink: RGB) -> str:
    """A path from the middle of a cell to the edges that the sign reaches."""
    x, y = left + _CELL / 2, top + _LINE / 2
    ends = {"u": (x, top), "d": (x, top + _LINE), "l": (left, y), "r": (left + _CELL, y)}
    path = "".join(f"M{x:g} {y:g}L{ends[arm][0]:g} {ends[arm][1]:g}" for arm in _ARMS[sign])
    return f"<path d='{path}' stroke='{hexadecimal(ink)}' stroke-width='{2 if sign in _HEAVY else 1}' fill='none'/>"


def _dots(bits: int, left: int, top: int, ink: RGB) -> Iterator[str]:
    for bit, (column, row) in enumerate(_DOTS):
        if bits >> bit & 1:
            x, y = left + _CELL * (2 * column + 1) / 4, top + _LINE * (2 * row + 1) / 8
            yield f"<circle cx='{x:g}' cy='{y:g}' r='1.4' fill='{hexadecimal(ink)}' shape-rendering='auto'/>"


def rectangle(left: float, top: float, width: float, height: float, color: RGB) -> str:
    """A rectangle without a line around it, in pixels."""
    x, y, w, h = (f"{size:g}" if isinstance(size, float) else size for size in (left, top, width, height))
    return f"<rect x='{x}' y='{y}' width='{w}' height='{h}' fill='{hexadecimal(color)}'/>"


def _rgb(color: Color | None) -> RGB | None:
    return None if color is None or color.is_default else color.get_truecolor(_THEME)
