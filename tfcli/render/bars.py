"""Horizontal bars of shares."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """A horizontal bar of `share` × `width` cells, to an eighth of a cell; without Unicode, of whole cells.

    >>> bar(0.5, 3), bar(0.5, 4, ascii_only=True)
    ('█▌', '##')
    """
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        return "#" * round(share * width)
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
