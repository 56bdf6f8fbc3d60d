"""``tfcli explore``: attention to walk through."""

import os
import sys
from typing import Annotated

import typer

from tfcli.console.options import Run, Target, Weights, argument, command
from tfcli.console.terminal import Terminal, is_terminal
from tfcli.draw.themes import Theme

_THEME = "A light or a dark screen, or as the terminal says (auto)."


@command
def explore(
    terminal: Terminal,
    *,
    run: Run,
    text: Annotated[str | None, argument(metavar="TEXT", help="The text to read first, else a short sentence.")] = None,
    target: Target = None,
    theme: Annotated[Theme, typer.Option("--theme", help=_THEME)] = "auto",
    weights: Weights,
) -> None:
    r"""Walk through the attention of a run: every layer and head, on any text.

    Arrow keys and the mouse move the cursor; ? shows all keys. Every view
    says the plain command that prints it, and the last one is printed at the
    end. Needs the extra: pip install 'tfcli\[tui]'

    Examples:

      tfcli explore runs/decoder-1
      tfcli explore runs/decoder-1 "Tom saw a cat"
      tfcli explore runs/pt-en-1 "o gato dorme" --target "the cat sleeps"
    """
    from tfcli.errors import UsageError

    if not (is_terminal() and is_terminal(sys.stdin)):
        remedy = "run it in one, or print a picture with tfcli inspect attention"
        raise UsageError("tfcli explore needs a terminal for keys and pictures", remedy)
    if not is_terminal(sys.stderr):
        raise UsageError("tfcli explore draws on stderr, which is no terminal here", "leave `2>` out")
    try:
        from tfcli.explorer.app import Explorer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise UsageError("tfcli explore needs Textual, which is not installed", "pip install 'tfcli[tui]'") from None
    from tfcli.draw.colors import has_colors
    from tfcli.explorer.scene import FIRST_TEXTS, TextReader

    loaded = weights.load(run)
    reader = TextReader(loaded)
    first = reader.read(FIRST_TEXTS[loaded.architecture] if text is None else text, target)
    if terminal.color == "never":
        os.environ["NO_COLOR"] = "1"  # Textual asks for it, and for nothing else
    color_system = terminal.out.color_system if has_colors(terminal.out) else None
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]  # how terminals tell theirs
    light = theme == "light" or (theme == "auto" and background in ("7", "15"))
    explorer = Explorer(reader.read, first, str(run), weights.checkpoint, color_system, light=light)
    last = explorer.run()
    if explorer.fault is not None:
        raise explorer.fault
    if last is not None:
        terminal.text(last)
