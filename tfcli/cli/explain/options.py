"""Options that several explanations share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.cli.options import Kind

Text = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default="Lucas will travel"),
]
OfRun = Annotated[
    Path | None,
    typer.Option("--run", metavar="RUN", help="A run, to see a real layer of it.", show_default="a toy"),
]
Layer = Annotated[int | None, typer.Option("--layer", min=0, help="Layer of a run, from 0.", show_default="0")]
Head = Annotated[
    int | None, typer.Option("--head", min=0, help="Head, from 0.", show_default="all of a toy, 0 of a run")
]
OfKind = Annotated[
    Kind | None,
    typer.Option(
        "--kind", metavar="KIND", help="Of a run: encoder_self, decoder_self or cross.", show_default="its own"
    ),
]
DModel = Annotated[
    int | None, typer.Option("--d-model", min=1, max=512, help="Of a toy: the size of a vector.", show_default="9")
]
Heads = Annotated[
    int | None, typer.Option("--heads", min=1, max=64, help="Of a toy: heads, which share d_model.", show_default="3")
]
NotationOption = Annotated[
    Literal["bishop", "udl", "cs224n", "inf721"],
    typer.Option("--notation", help="Whose symbols; udl: columns are tokens."),
]
ToySeed = Annotated[int | None, typer.Option("--seed", min=0, help="Of a toy: seed of its weights.", show_default="0")]
