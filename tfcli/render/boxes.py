"""Boxes with a title and a number in their frame, put into each other, above each other and beside each other."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

Lines = list[Text]


@dataclass(frozen=True)
class Frame:
    """The signs of a box: corners, and the two kinds of sides."""

    corners: str
    across: str
    down: str


_PLAIN = str.maketrans("╭╮╰╯─│┤╔╗╚╝═║▲▶⊕×·⊙", "++++-||++++=|^>+x.*")

LIGHT = Frame("╭╮╰╯", "─", "│")
DOUBLE = Frame("╔╗╚╝", "═", "║")


def boxed(
    lines: Iterable[Text], width: int, *, title: str = "", number: str = "", style: str = "", frame: Frame = LIGHT
) -> Lines:
    """Lines inside a frame of `width` cells, open at the bottom for the arrow that comes in."""
    left, right, low_left, low_right = tuple(frame.corners)
    name = f" {title} " if title else ""
    count = f" {number} " if number else ""
    fill = frame.across * (width - 4 - len(name) - len(count))
    top = Text.assemble((left + frame.across, style), (name, f"bold {style}"), (fill, style), (count, style))
    top.append(frame.across + right, style)
    return [
        top,
        *(Text.assemble((frame.down, style), padded(line, width - 2), (frame.down, style)) for line in lines),
        arrow_in(Text(low_left + frame.across * (width - 2) + low_right, style)),
    ]


def in_ascii(line: Text) -> Text:
    """The same for a terminal whose encoding has no lines to draw with."""
    line.plain = line.plain.translate(_PLAIN)
    return line


def arrow_in(edge: Text) -> Text:
    """An arrow into the middle of a lower edge."""
    middle = edge.cell_len // 2
    return Text.assemble(edge[:middle], "▲", edge[middle + 1 :])


def padded(line: Text, width: int) -> Text:
    """As wide as asked for."""
    line = line.copy()
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


def centred(text: str, width: int, style: str = "") -> Text:
    """In the middle, with the sign at half the width over an arrow."""
    return padded(Text(" " * max(0, width // 2 - len(text) // 2) + text, style), width)


def wrapped(text: str, width: int, style: str = "dim") -> Lines:
    """A sentence in lines of `width` cells."""
    return [Text(line, style) for line in textwrap.wrap(text, width)]


def beside(left: Sequence[Text], right: Sequence[Text], gap: Sequence[Text]) -> Lines:
    """Two columns that stand on one ground, with a gap of as many lines as the higher one between them."""
    height = max(len(left), len(right))
    columns = [[Text(" " * one[0].cell_len)] * (height - len(one)) + list(one) for one in (left, right)]
    return [Text.assemble(a, between, b) for a, between, b in zip(columns[0], gap, columns[1], strict=True)]
