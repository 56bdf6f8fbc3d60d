"""Where a picture can go: the terminal, JSON, CSV, an SVG file, an HTML page."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.render.table_csv import Table

Csv = Annotated[bool, typer.Option("--csv", help="Print the numbers as CSV instead.")]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="F", help="Write the picture as SVG, too.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="F", help="Write the picture as a web page, too.")]


@dataclass(frozen=True)
class Outputs:
    """What the user asked for. Make it before any work: it refuses what cannot be written.

    Raises:
        UsageError: --csv and --json together, two pictures in one file, or a file that cannot be written.
    """

    json: bool = False
    csv: bool = False
    svg: Path | None = None
    html: Path | None = None

    def __post_init__(self) -> None:
        from tfcli.errors import UsageError
        from tfcli.outputs import require_output

        if self.csv and self.json:
            raise UsageError("--csv and --json are two forms of one result", "give one of the two")
        for option, path in (("--svg", self.svg), ("--html", self.html)):
            if path is not None:
                require_output(path, option)


def present(
    terminal: Terminal,
    outputs: Outputs,
    view: Any,
    *,
    json: Callable[[], Any],
    table: "Callable[[], Table]",
    svg: Callable[[], str] | None = None,
    html: Callable[[], str] | None = None,
) -> None:
    """Write the files that were asked for, then print the view, or JSON or CSV in its place.

    Args:
        view: what rich prints; files show the same, 120 columns wide, unless `svg` or `html` draw their own.
        json: the record as JSON values. table: the same as a table.
    """
    from tfcli.outputs import about, write_output
    from tfcli.render.picture import captioned, picture_html, picture_svg
    from tfcli.render.table_csv import to_csv

    for option, path, draw in (
        ("--svg", outputs.svg, svg or (lambda: picture_svg(view))),
        ("--html", outputs.html, html or (lambda: picture_html(view))),
    ):
        if path is not None:
            write_output(path, option, captioned(draw(), **about))
    if outputs.json:
        terminal.json(json())
    elif outputs.csv:
        terminal.write(to_csv(table()))
    else:
        terminal.show(view)
