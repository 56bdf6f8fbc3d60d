"""Consoles of a fixed size that keep what is printed, whatever terminal the tests run in."""

import io
from typing import Any, Literal

from rich.console import Console

ColorSystem = Literal["standard", "256", "truecolor"]


def fixed_console(width: int = 80, color: ColorSystem | None = None, *, height: int = 40) -> Console:
    """A console of `width` × `height` cells; without `color` it prints plain text."""
    return Console(
        width=width,
        height=height,
        file=io.StringIO(),
        color_system=color,
        force_terminal=color is not None,
        no_color=color is None,
        legacy_windows=False,
        _environ={},
    )


def printed(renderable: Any, width: int = 80, color: ColorSystem | None = None, *, height: int = 40) -> str:
    """What a fixed console shows of `renderable`; without `color` lines have no trailing blanks."""
    console = fixed_console(width, color, height=height)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    return text if color else "\n".join(line.rstrip() for line in text.splitlines())
