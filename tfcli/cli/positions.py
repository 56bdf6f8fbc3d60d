"""``tfcli inspect positions``: a positional encoding."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.cli.options import Json, command
from tfcli.cli.terminal import Terminal

_SIZE = 64  # of a table that still fits into a terminal


@command
def positions(
    terminal: Terminal,
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run, to see its own.", show_default=False)
    ] = None,
    encoding: Annotated[
        Literal["sinusoidal", "rotary"] | None,
        typer.Option("--encoding", help="A formula, without a run."),
    ] = None,
    length: Annotated[
        int | None, typer.Option("--length", min=1, help="Positions.", show_default=f"{_SIZE}, or the run's")
    ] = None,
    d_model: Annotated[
        int | None, typer.Option("--d-model", min=1, help="Dimensions.", show_default=str(_SIZE))
    ] = None,
    heads: Annotated[
        int | None,
        typer.Option("--heads", min=1, help="Heads that share d_model, for rotary.", show_default="1"),
    ] = None,
    base: Annotated[
        float | None,
        typer.Option("--base", help="Base L of the wavelengths.", show_default="10000"),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV, a position a line.")] = False,
    json: Json = False,
) -> None:
    """Show a positional encoding.

    Its table is drawn as a heat map, and how alike positions are by their distance.

    Examples:

      tfcli inspect positions --encoding sinusoidal --length 64 --d-model 128
      tfcli inspect positions runs/decoder-1
    """
    from tfcli.errors import UsageError
    from tfcli.inspection.positions import positions_table, run_positions
    from tfcli.recipe.model import ModelSection
    from tfcli.render.as_json import to_json
    from tfcli.render.positions import PositionsView
    from tfcli.runs.load import load_run

    if csv and json:
        raise UsageError("--csv and --json are two forms of one table", "give one of the two")
    if run is not None:
        formula = {"--encoding": encoding, "--d-model": d_model, "--heads": heads, "--base": base}
        for option, value in formula.items():
            if value is not None:
                raise UsageError(f"The run {run} has its own positions", f"leave {option} out, or leave the run out")
        record = run_positions(load_run(run).model, length)
    else:
        chosen, size, heads = encoding or "sinusoidal", d_model or _SIZE, heads or 1
        if size % heads:
            raise UsageError(f"--d-model {size} is not divisible by --heads {heads}", "choose a multiple")
        base = ModelSection.position_base if base is None else base
        record = positions_table(chosen, length or _SIZE, size // heads if chosen == "rotary" else size, base)
    if json:
        terminal.json(to_json(record))
    elif csv:
        for row in record.table:
            terminal.text(",".join(str(value) for value in row))
    else:
        terminal.show(PositionsView(record))
