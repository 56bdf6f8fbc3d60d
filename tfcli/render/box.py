"""The lines of frames and axes (Unicode block U+2500) as SVG paths."""

# Each sign with the arms it has: up, right, down, left.
_SIGNS = (
    "│ud ─lr ┌rd ┐ld └ur ┘ul ├urd ┤uld ┬lrd ┴ulr ┼ulrd ╭rd ╮ld ╰ur ╯ul ╷d ╵u ╶r ╴l "
    "┃ud ━lr ┏rd ┓ld ┗ur ┛ul ┡urd ┩uld ╇ulrd ┳lrd"
)
_ARMS = {sign[0]: sign[1:] for sign in _SIGNS.split()}
_HEAVY = "┃━┏┓┗┛┡┩╇┳"


def is_box(character: str) -> bool:
    """Whether the sign is drawn here."""
    return character in _ARMS


def box_lines(sign: str, left: float, top: float, width: float, height: float, color: str) -> str:
    """A path from the middle of a cell to the edges that the sign reaches."""
    x, y = left + width / 2, top + height / 2
    ends = {"u": (x, top), "d": (x, top + height), "l": (left, y), "r": (left + width, y)}
    path = "".join(f"M{x:g} {y:g}L{ends[arm][0]:g} {ends[arm][1]:g}" for arm in _ARMS[sign])
    return f"<path d='{path}' stroke='{color}' stroke-width='{2 if sign in _HEAVY else 1}' fill='none'/>"
