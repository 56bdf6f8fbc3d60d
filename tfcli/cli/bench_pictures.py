"""``tfcli bench pictures``: how long a picture takes to draw."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tfcli.cli.options import Json, command
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.records.attention import AttentionRecord


@command
def bench_pictures(
    terminal: Terminal,
    tokens: Annotated[int, typer.Option("--tokens", min=2, max=4096, help="Queries and keys of the map.")] = 316,
    columns: Annotated[int, typer.Option("--columns", min=20, max=1000, help="Columns of the terminal.")] = 140,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds to measure, after one to warm up.")] = 9,
    json: Json = False,
) -> None:
    """Measure how fast a map of attention weights is drawn.

    In the terminal with 24-bit colour, 256 colours, sixteen and none, as SVG and
    as a page. The weights are random; no model is run.

    Examples:

      tfcli bench pictures --rounds 2
      tfcli bench pictures --tokens 64 --columns 80 --rounds 2 --json
    """
    from tfcli.bench.pictures import measure_pictures, random_head
    from tfcli.render.as_json import to_json
    from tfcli.render.bench.pictures import PictureSpeedView

    speed = measure_pictures(_forms(random_head(tokens), columns), tokens, columns, rounds)
    if json:
        terminal.json(to_json(speed))
    else:
        terminal.show(PictureSpeedView(speed))


def _forms(record: "AttentionRecord", columns: int) -> dict[str, Callable[[], str]]:
    from rich.console import Console

    from tfcli.render.attention.html import attention_html
    from tfcli.render.attention.svg import attention_svg
    from tfcli.render.attention.table import AttentionTable

    view = AttentionTable(record, 0, 0)

    def printer(color_system: str | None) -> Callable[[], str]:
        def draw() -> str:
            file = io.StringIO()
            Console(
                file=file,
                width=columns,
                color_system=color_system,  # type: ignore[arg-type]
                no_color=color_system is None,
                force_terminal=True,
                _environ={},
            ).print(view)
            return file.getvalue()

        return draw

    return {
        "terminal, 24-bit colour": printer("truecolor"),
        "terminal, 256 colours": printer("256"),
        "terminal, 16 colours": printer("standard"),
        "terminal, no colour": printer(None),
        "SVG": lambda: attention_svg(record, 0, 0),
        "page of every head": lambda: attention_html([record]),
    }
