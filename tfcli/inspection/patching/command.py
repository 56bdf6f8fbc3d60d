"""``tfcli inspect patch``: activation patching and path patching between two texts."""

from typing import Annotated

import typer

from tfcli.console.options import Evolution, Kind, Outputs, Position, Run, Target, Weights, command, present
from tfcli.console.settings import usual
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError


@command
def patch(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    *,
    clean: Annotated[str, typer.Option(metavar="TEXT", help="The text whose answer is explained.")],
    corrupt: Annotated[str, typer.Option(metavar="TEXT", help="The same with other words that decide.")],
    target: Target = None,
    position: Position = None,
    token: Annotated[str | None, usual("the likeliest of --clean", "The answer on that text.", metavar="TOKEN")] = None,
    against: Annotated[str | None, usual("the likeliest of --corrupt", "The answer on that.", metavar="TOKEN")] = None,
    noising: Annotated[bool, typer.Option("--noising", help="Patch the clean text with the corrupt one.")] = False,
    path: Annotated[str | None, usual("every part by itself", "Where this head's change goes.", metavar="L.H")] = None,
    kind: Annotated[Kind | None, usual("the decoder's", "The attention of --path.", metavar="KIND")] = None,
    evolution: Evolution = False,
    weights: Weights,
) -> None:
    """Show which part of a model makes it answer one text and not another.

    Activation patching: one part of the pass on the corrupt text is replaced by
    what it is on the clean one, and the answer says how much that part decides:
    every layer and position of the residual stream, of attention and MLP, every
    head's output, pattern and values. Both texts need as many tokens; an
    encoder reads a mask, and an encoder-decoder is asked where its translations
    part, or behind --target.

    Examples:

      tfcli inspect patch runs/decoder-1 --clean "Tom sang" --corrupt "Tom swam" --token s --against f
      tfcli inspect patch runs/encoder-1 --clean "Tom saw a <mask>" --corrupt "Mia saw a <mask>" --token a --against I
      tfcli inspect patch runs/pt-en-1 --clean "o livro" --corrupt "a mesa" --target the --token book --against table
    """
    from tfcli.inspection.patching import compute, view
    from tfcli.records.heads import parse_place

    if kind is not None and path is None:
        raise UsageError("--kind names the attention of --path", "give --path L.H, or leave --kind out")
    place = None if path is None else parse_place(path, "--path")
    texts, loaded = (read_text(clean), read_text(corrupt), target), weights.load(run)
    told = {"position": position, "token": token, "against": against, "noising": noising, "path": place, "kind": kind}
    if evolution:
        from tfcli.inspection.evolution.compute import evolution as over
        from tfcli.inspection.evolution.view import EvolutionView, evolution_table

        evolved = over(loaded, compute.patch, *texts, **told)
        present(terminal, outputs, EvolutionView(evolved), evolved, evolution_table)
        return
    record = compute.patch(loaded, *texts, **told)  # type: ignore[arg-type]
    present(terminal, outputs, view.PatchingView(record), record, view.patching_table)
