"""Where a picture can go: the terminal, JSON, CSV, an SVG file, an HTML page."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfcli.cli.options import Outputs
from tfcli.cli.terminal import Terminal
from tfcli.outputs import about, write_output

if TYPE_CHECKING:
    from tfcli.render.table_csv import Table


def present(
    terminal: Terminal,
    outputs: Outputs,
    view: Any,
    record: Any,
    table: "Callable[[Any], Table]",
    *,
    json: Callable[[Any], Any] | None = None,
    svg: Callable[[], str] | None = None,
    html: Callable[[], str] | None = None,
) -> None:
    """Write the files that were asked for, then print the view, or JSON or CSV instead of it.

    Args:
        view: what rich prints; files show the same, 120 columns wide, unless `svg` or `html` draw their own.
        table: makes the CSV table of the record.
        json: makes the JSON values of the record, where it has a form of its own.
    """
    from tfcli.render.as_json import to_json
    from tfcli.render.picture import captioned, picture_html, picture_svg
    from tfcli.render.table_csv import to_csv

    for option, path, draw in (
        ("--svg", outputs.svg, svg or (lambda: picture_svg(view))),
        ("--html", outputs.html, html or (lambda: picture_html(view))),
    ):
        if path is not None:
            write_output(path, option, captioned(draw(), **about))
    if outputs.json:
        terminal.json((json or to_json)(record))
    elif outputs.csv:
        terminal.write(to_csv(table(record)))
    else:
        terminal.show(view)
