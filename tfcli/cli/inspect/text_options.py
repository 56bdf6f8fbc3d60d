"""The arguments of commands that read a text with a run."""

from typing import Annotated

import typer

Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default=False)]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="TEXT", help="Target of an encoder-decoder.", show_default="its translation"),
]
Position = Annotated[
    int | None,
    typer.Option(
        "--position",
        min=0,
        help="Position to look at, from 0.",
        show_default="the last, or the first mask",
    ),
]
