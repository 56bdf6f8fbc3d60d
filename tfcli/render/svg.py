"""An SVG document around what is drawn: the same bytes every time, nothing fetched."""

from collections.abc import Iterable
from html import escape

_FONT = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace"


def svg_document(title: str, width: int, height: int, parts: Iterable[str], look: str = "") -> str:
    """Elements on a white ground, words in a monospaced font of 13 px.

    Args:
        look: further attributes of everything.
    """
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"font-family='{_FONT}' font-size='13'{look}>"
    )
    ground = f"<rect width='{width}' height='{height}' fill='#ffffff'/>"
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *parts, "</svg>"]) + "\n"
