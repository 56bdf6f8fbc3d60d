"""Pages of a screen: a picture's parts are cut between lines only if they are higher than the screen."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.console import Console, ConsoleRenderable, Group, RenderableType
from rich.segment import Segment, Segments

from tfcli.draw import View

Line = list[Segment]


@dataclass
class Page:
    """The lines that one screen shows.

    Attributes:
        lines: At most as many lines as the screen has.
        is_cut: Whether the page begins inside a part that is higher than the screen.
    """

    lines: list[Line] = field(default_factory=list)
    is_cut: bool = False


def pages(renderable: RenderableType, console: Console, height: int) -> list[Page]:
    """Divide a renderable among screens of `height` lines. A part that fits a screen stays whole."""
    finished = list[Page]()
    page = Page()
    for lines in _blocks(renderable, console):
        fits_a_screen = len(lines) <= height
        if fits_a_screen and len(page.lines) + len(lines) > height:
            finished.append(page)
            page = Page()
        for number, line in enumerate(lines):
            if len(page.lines) == height:
                finished.append(page)
                page = Page(is_cut=number > 0 and not fits_a_screen)
            if page.lines or not _is_blank(line):
                page.lines.append(line)
    if page.lines or not finished:
        finished.append(page)
    return finished


def _blocks(renderable: RenderableType, console: Console) -> Iterator[list[Line]]:
    """The parts of a renderable as lines; blank lines between parts are parts of their own."""
    for part in _parts(renderable, console):
        lines = console.render_lines(part, pad=False)
        after = len(lines)
        while after and _is_blank(lines[after - 1]):
            after -= 1
        if after:
            yield lines[:after]
        for blank in lines[after:]:
            yield [blank]


def _parts(renderable: RenderableType, console: Console) -> Iterator[RenderableType]:
    """What views and groups are made of: all that each of them draws on its own."""
    drawn: Iterable[RenderableType | Segment]
    if isinstance(renderable, View) and isinstance(renderable, ConsoleRenderable):
        drawn = renderable.__rich_console__(console, console.options)
    elif isinstance(renderable, Group):
        drawn = renderable.renderables
    else:
        yield renderable
        return
    segments = list[Segment]()
    for part in drawn:
        if isinstance(part, Segment):
            segments.append(part)
            continue
        if segments:
            yield Segments(segments)
            segments = []
        yield from _parts(part, console)
    if segments:
        yield Segments(segments)


def _is_blank(line: Line) -> bool:
    return not any(segment.text.strip() or (segment.style and segment.style.bgcolor) for segment in line)
