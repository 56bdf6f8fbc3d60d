"""Text made safe and aligned: nothing that steers a terminal gets through; cells are counted, not letters."""

import re
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from rich.cells import cell_len

T = TypeVar("T")

# What moves the cursor, changes colours or direction, or takes no room: C0, DEL, C1, soft hyphen, zero-width
# spaces, bidirectional controls, line separators, fillers, interlinear marks, surrogates, tags and the like.
_ALWAYS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U00013455\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# These shape running text (emoji families, Persian, layout) and only break the alignment of a label.
_SHAPING = "\t\n\u200c\u200d\ufe00-\ufe0f"
UNSAFE = re.compile(f"[{_ALWAYS}]")  # a character that no terminal may get as it is
_UNSAFE_OR_SHAPING = re.compile(f"[{_ALWAYS}{_SHAPING}]")
_ODD_SPACE = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": r"\x0d"}


def printable(text: str, keep_newlines: bool = False) -> str:
    r"""`text` with every character that could steer or fool a terminal written as an escape. With `keep_newlines` it is
    running text: newlines, tabs and joiners stay. Without, it is one line: a newline is ⏎, a tab ⇥.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb⏎'
    """
    return (UNSAFE if keep_newlines else _UNSAFE_OR_SHAPING).sub(_escaped, text)


def token_label(token: str) -> str:
    r"""A token as a label of one line: a space is "·", and a mark without its letter sits on a dotted circle.

    >>> token_label(" bank"), token_label("\n"), token_label("")
    ('·bank', '⏎', '∅')
    """
    label = _ODD_SPACE.sub(_escaped, printable(token)).replace(" ", "·")
    if not label:
        return "∅"
    return "◌" + label if cell_len(label[0]) == 0 else label


def fit(label: str, width: int, align: Literal["left", "right", "center"] = "left") -> str:
    """`label` in exactly `width` cells: padded, or cut with a "…" at its end.

    >>> fit("bank", 6), fit("riverbank", 6), fit("日本語", 4)
    ('bank  ', 'river…', '日… ')
    """
    missing = width - cell_len(label)
    if missing < 0:
        cuts = (label[:end] for end in range(len(label), -1, -1))  # marks stay with their letter
        label = next(cut for cut in cuts if cell_len(cut) < width) + "…" if width > 0 else ""
        missing = width - cell_len(label)
    before = {"left": 0, "right": missing, "center": missing // 2}[align]
    return " " * before + label + " " * (missing - before)


def shortened(label: str, longest: int) -> str:
    """`label` as it is, cut with a "…" where it takes more than `longest` cells.

    >>> shortened("bank", 6), shortened("riverbank", 6)
    ('bank', 'river…')
    """
    return fit(label, min(cell_len(label), longest))


ARROW = " → "  # between what a row reads and what comes next; no label holds it, for a label has no blanks
_SIDE = 4


def in_room(labels: tuple[str, ...], width: int) -> tuple[str, ...]:
    """Labels in at most `width` cells each. Of an "input → next" that does not fit, each side gets half of the room and
    what the other leaves, and a "?" at its end stays; where no four cells a side are left, all are the inputs alone.

    >>> in_room(("travelling → December", ". → December?"), 15)
    ('trave… → Decem…', '. → December?')
    >>> in_room(("travelling → December", "a → b"), 9)
    ('travelli…', 'a')
    """
    room = width - len(ARROW)
    if room < 2 * _SIDE and widest(labels) > width:
        return tuple(shortened(label.partition(ARROW)[0], width) for label in labels)

    def one(label: str) -> str:
        before, arrow, after = label.partition(ARROW)
        if not arrow or cell_len(label) <= width:
            return shortened(label, width)
        before, mark = shortened(before, max(room // 2, room - cell_len(after))), "?" * after.endswith("?")
        return before + arrow + shortened(after.removesuffix("?"), room - cell_len(before) - len(mark)) + mark

    return tuple(map(one, labels))


def broken(items: Iterable[T], width: int, cells: Callable[[T], int], ends_line: Callable[[T], bool]) -> list[list[T]]:
    """Items in lines of at most `width` cells, one cell behind each; one that ends its line is the last there."""
    lines, used = list[list[T]](), width
    for one in items:
        if used + cells(one) + 1 > width or (lines and ends_line(lines[-1][-1])):
            lines, used = [*lines, []], 0
        lines[-1].append(one)
        used += cells(one) + 1
    return lines


def widest(labels: tuple[str, ...]) -> int:
    """Cells of the widest label; 0 without labels."""
    return max(map(cell_len, labels), default=0)


def _escaped(match: re.Match[str]) -> str:
    return _SIGNS.get(match[0]) or match[0].encode("unicode_escape").decode()
