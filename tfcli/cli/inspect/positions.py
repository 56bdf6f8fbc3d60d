"""``tfcli inspect positions``: a positional encoding."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tfcli.cli.options import Json, command
from tfcli.cli.terminal import Terminal

_SIZE = 64  # of a table that still fits into a terminal
_HEADS = 8  # of ALiBi, as in the paper's example


@command
def positions(
    terminal: Terminal,
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run, to see its own.", show_default=False)
    ] = None,
    encoding: Annotated[
        Literal["sinusoidal", "rotary", "alibi", "learned", "t5", "none"] | None,
        typer.Option(
            "--encoding",
            help="Without a run: a formula (sinusoidal, rotary, alibi). Others need one.",
            show_default="sinusoidal",
        ),
    ] = None,
    length: Annotated[
        int | None, typer.Option("--length", min=1, help="Positions.", show_default=f"{_SIZE}, or the run's")
    ] = None,
    d_model: Annotated[
        int | None, typer.Option("--d-model", min=1, help="Dimensions.", show_default=str(_SIZE))
    ] = None,
    heads: Annotated[
        int | None,
        typer.Option(
            "--heads",
            min=1,
            help="Heads: a column each of alibi; for rotary, those that share d_model.",
            show_default=f"{_HEADS} for alibi, else 1",
        ),
    ] = None,
    base: Annotated[
        float | None,
        typer.Option("--base", help="Base L of the wavelengths.", show_default="10000"),
    ] = None,
    layout: Annotated[
        Literal["interleaved", "halves"] | None,
        typer.Option(
            "--layout",
            help="Dimensions that share a wavelength: neighbours, or half the size apart.",
            show_default="halves for rotary, else interleaved",
        ),
    ] = None,
    side: Annotated[
        Literal["source", "target"] | None,
        typer.Option("--side", help="Of an encoder-decoder that learned a table for each side.", show_default="source"),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV, a row a line.")] = False,
    json: Json = False,
) -> None:
    """Show a positional encoding.

    Vectors (sinusoidal, learned, rotary) are drawn as a heat map, and how alike positions are by their distance; biases
    (alibi, t5) by head and distance.

    Examples:

      tfcli inspect positions --encoding sinusoidal --length 64 --d-model 128
      tfcli inspect positions --encoding alibi --heads 8
      tfcli inspect positions runs/decoder-1
    """
    from tfcli.errors import UsageError
    from tfcli.inspection.positions import run_positions
    from tfcli.render.as_json import to_json
    from tfcli.render.positions import PositionsView
    from tfcli.runs.load import load_run

    if csv and json:
        raise UsageError("--csv and --json are two forms of one table", "give one of the two")
    formula = {"--d-model": d_model, "--heads": heads, "--base": base, "--layout": layout}
    if run is not None:
        _require_unset(
            {"--encoding": encoding, **formula}, f"The run {run} has its own positions", "or leave the run out"
        )
        record = run_positions(load_run(run).model, length, side)
    else:
        _require_unset({"--side": side}, "A formula has no sides", "or name a run")
        record = _formula(encoding or "sinusoidal", length or _SIZE, formula)
    if json:
        terminal.json(to_json(record))
    elif csv:
        for row in record.table:
            terminal.text(",".join(str(value) for value in row))
    else:
        terminal.show(PositionsView(record))


def _formula(encoding: str, length: int, options: dict[str, Any]) -> Any:
    from tfcli.errors import UsageError
    from tfcli.inspection.positions import positions_table
    from tfcli.recipe.model import ModelSection

    if encoding == "alibi":
        others = {name: value for name, value in options.items() if name != "--heads"}
        _require_unset(others, "ALiBi's bias has heads and distances alone", "or choose another --encoding")
        return positions_table(encoding, length, options["--heads"] or _HEADS)
    size, heads, base = options["--d-model"] or _SIZE, options["--heads"] or 1, options["--base"]
    if size % heads:
        raise UsageError(f"--d-model {size} is not divisible by --heads {heads}", "choose a multiple")
    return positions_table(
        encoding,
        length,
        size // heads if encoding == "rotary" else size,
        ModelSection.position_base if base is None else base,
        layout=options["--layout"],
    )


def _require_unset(options: dict[str, Any], problem: str, otherwise: str) -> None:
    """Refuse the first option that was given and would say nothing."""
    from tfcli.errors import UsageError

    for option, value in options.items():
        if value is not None:
            raise UsageError(problem, f"leave {option} out, {otherwise}")
