"""Options of commands that look at a position of a text."""

from typing import Annotated

import typer

Position = Annotated[
    int | None,
    typer.Option(
        "--position",
        min=0,
        help="Position to look at, from 0.",
        show_default="the last, or the first mask",
    ),
]
Words = Annotated[bool, typer.Option("--words", help="Merge the pieces of each word into one.")]
