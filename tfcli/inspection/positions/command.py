"""``tfcli inspect positions``: a positional encoding, or all of them side by side."""

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.console.options import Outputs, argument, command, first_given, present
from tfcli.console.settings import usual
from tfcli.console.terminal import Terminal
from tfcli.errors import TfcliError, UsageError
from tfcli.inspection.positions import HEADS, SIZE
from tfcli.recipe.model import PositionLayout, Positions

if TYPE_CHECKING:
    from tfcli.inspection.positions import BeyondContext, Described

Side = Literal["source", "target"]
_OF_HEADS = f"{HEADS} for alibi and --compare, else 1"
_OF_LAYOUT = "halves for rotary, else interleaved"


@command
def positions(
    terminal: Terminal,
    outputs: Outputs,
    runs: Annotated[list[Path] | None, argument(metavar="RUN", help="To see its own; several with --compare.")] = None,
    encoding: Annotated[Positions | None, usual("sinusoidal", "A formula's: sinusoidal, rotary or alibi.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="All encodings side by side, with the runs' own.")] = False,
    shift: Annotated[int | None, usual("1", "Show the matrix that carries n to n + K.", metavar="K", min=1)] = None,
    loss: Annotated[bool, typer.Option("--loss", help="A decoder's loss at 1×, 2× and 4× its context.")] = False,
    length: Annotated[int | None, usual(f"{SIZE}, or the run's", "Positions.", min=1, max=4096)] = None,
    d_model: Annotated[int | None, usual(str(SIZE), "Dimensions.", min=1, max=512)] = None,
    heads: Annotated[int | None, usual(_OF_HEADS, "Of alibi; of rotary, which share d_model.", min=1, max=128)] = None,
    base: Annotated[float | None, usual("10000", "Base L of the wavelengths.")] = None,
    layout: Annotated[PositionLayout | None, usual(_OF_LAYOUT, "Pairs: neighbours, or half the size apart.")] = None,
    side: Annotated[Side | None, usual("source", "Of an encoder-decoder that learned a table for each.")] = None,
) -> None:
    """Show a positional encoding, and whether it is what one should be.

    Vectors (sinusoidal, learned, rotary) are drawn as a heat map, and how alike
    positions are by their distance; biases (alibi, t5) by head and distance.
    Then what the lecture asks of an encoding, each with its number: bounded,
    unique, usable beyond its length, consistent distance, in the data.

    Examples:

      tfcli inspect positions --encoding sinusoidal --length 64 --d-model 128
      tfcli inspect positions --d-model 6 --shift 1
      tfcli inspect positions --compare
      tfcli inspect positions runs/decoder-1
    """
    from rich.console import Group
    from rich.text import Text

    from tfcli.draw.svg import WIDTH, picture_html, picture_svg
    from tfcli.inspection.positions import compute, view
    from tfcli.inspection.positions.comparison import compared, formula

    if base is not None and not 1 < base < inf:
        raise UsageError(f"--base {base:g} gives no growing wavelengths", "choose a finite base above 1")
    shape: dict[str, Any] = {"--d-model": d_model, "--heads": heads, "--base": base, "--layout": layout}
    named, k = list(runs or []), shift or 1
    if compare:
        if len({run.resolve() for run in named}) < len(named):
            raise UsageError("A run is compared with itself", "name each run once")
        unused = {"--encoding": encoding, "--layout": layout, "--side": side}
        _require_unset(unused, "--compare shows every encoding", "or leave --compare out")
        described = [_of_run(terminal, run, length, None, k, loss=loss)[0] for run in named]
        every = compared(described, length, d_model, heads=heads, base=base, k=k)
        drawn = view.ComparisonView(every)
        present(terminal, outputs, drawn, every, view.requirements_table, json=view.comparison_json)
        return
    if len(named) > 1:
        raise UsageError(f"{len(named)} runs are shown side by side with --compare", "add it, or name one run")
    beyond = carried = None
    if named:
        own = f"The run {named[0]} has its own positions"
        _require_unset({"--encoding": encoding, **shape}, own, "or leave the run out")
        (record, found), beyond = _of_run(terminal, named[0], length, side, k, loss=loss)
    else:
        _require_unset({"--side": side}, "A formula has no sides", "or name a run")
        _require_unset({"--loss": loss or None}, "A formula has no loss", "or name a run")
        if encoding == "alibi":
            others = {name: value for name, value in shape.items() if name != "--heads"}
            _require_unset(others, "ALiBi's bias has heads and distances alone", "or choose another --encoding")
        encoding = encoding or "sinusoidal"
        record, found = formula(encoding, length, d_model, heads=heads, base=base, layout=layout, k=k)
    table_view = view.PositionsView(record, length or view.ROWS)
    parts: list[Any] = [Text(), view.RequirementsView(found)]
    table = view.positions_csv(record)
    if shift is not None:
        carried = compute.shift(record, shift)
        parts += [Text(), view.ShiftView(carried)]
        table = view.shift_table(carried)
    if beyond is not None:
        parts += [Text(), view.BeyondContextView(beyond)]
    shown, picture = (record, found, carried, beyond), Group(table_view, *parts)
    filed, width = Group(replace(table_view, in_file=True), *parts), max(WIDTH, table_view.width or 0)
    present(
        terminal,
        outputs,
        picture,
        shown,
        lambda _: table,
        json=lambda every: view.positions_json(*every),
        svg=lambda theme: picture_svg(filed, width, theme),
        html=lambda theme: picture_html(filed, width, theme),
    )


def _of_run(
    terminal: Terminal, path: Path, length: int | None, side: Side | None, k: int, *, loss: bool
) -> "tuple[Described, BeyondContext | None]":
    """A run's positions, and with `loss` its loss on its own validation text, within its context and beyond."""
    from tfcli.addresses import AddressNeeded
    from tfcli.inspection.positions.comparison import of_run
    from tfcli.inspection.positions.compute import beyond_context, require_decoder
    from tfcli.pipeline.datasets import dataset_of_run
    from tfcli.runs.load import load_run

    run, beyond = load_run(path), None
    if loss:
        require_decoder(run)
        with terminal.progress() as say:
            say("looking for its text")
            try:
                data = dataset_of_run(run.directory, run.recipe, lambda event: None)
            except AddressNeeded:
                raise
            except TfcliError as error:
                raise UsageError(error.problem, "leave --loss out, or name a run whose text is here") from error
            say("reading it")
            beyond = beyond_context(run, data)
    return of_run(run.model, str(path), length, side=side, k=k, beyond=beyond), beyond


def _require_unset(options: dict[str, Any], problem: str, otherwise: str) -> None:
    """Refuse the first option that was given and would say nothing."""
    if option := first_given(options):
        raise UsageError(problem, f"leave {option} out, {otherwise}")
