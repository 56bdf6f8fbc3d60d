"""``tfcli explain positions``: one function, as the lectures write it, with every number."""

from collections.abc import Sequence
from math import inf
from typing import Annotated, Any

import typer

from tfcli.cli.explain.options import NotationOption, OfRun, Text, ToySeed
from tfcli.cli.options import Checkpoint, Outputs, command, first_given
from tfcli.cli.pictures import present
from tfcli.cli.stdin import read_text
from tfcli.cli.terminal import Terminal
from tfcli.errors import UsageError

_SIZE = 4


@command
def positions(
    terminal: Terminal,
    outputs: Outputs,
    text: Text = None,
    run: OfRun = None,
    d_model: Annotated[
        int | None, typer.Option(min=1, max=512, help="Size of a toy's vectors.", show_default=str(_SIZE))
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Positions of the table.", show_default="the text's")
    ] = None,
    base: Annotated[float, typer.Option(help="Base L of the wavelengths.")] = 10_000.0,
    notation: NotationOption = "bishop",
    seed: ToySeed = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Show how positions become numbers, and join a text.

    Every lecture's way to write the same function, then the table step by step:
    wavelengths, angles, sines and cosines, and how they are added, concatenated,
    or put into queries and keys. With --run, the embeddings are a run's.

    Examples:

      tfcli explain positions "Lucas will travel" --d-model 4
      tfcli explain positions --notation inf721 --d-model 6
      tfcli explain positions "Tom swam" --run runs/decoder-1
    """
    from tfcli.inspection.explain.positions import explain_positions, toy_embeddings
    from tfcli.inspection.explain.toy import EXAMPLE
    from tfcli.render.explain.positions import PositionExplanationView
    from tfcli.render.explain.steps import explanation_table

    if not 1 < base < inf:
        raise UsageError(f"--base {base:g} gives no growing wavelengths", "choose a finite base above 1")
    read = EXAMPLE if text is None else read_text(text)
    if not read.strip():
        raise UsageError("The text is empty", "give a few words")
    tokens: Sequence[str]
    of_run: dict[str, Any] = {}
    if run is None:
        size = d_model or _SIZE
        tokens, vectors = toy_embeddings(read, size, seed or 0)
        label = f"a toy with random embeddings of seed {seed or 0}: d_model {size}"
    else:
        from tfcli.inspection.explain.run_embeddings import embedded_by_run
        from tfcli.runs.load import load_run

        if option := first_given({"--d-model": d_model, "--seed": seed}):
            raise UsageError(f"The run {run} has its own sizes and weights", f"leave {option} out, or --run")
        found = embedded_by_run(load_run(run, checkpoint), read)
        tokens, vectors = found.tokens, found.vectors
        of_run = {"own": found.added, "remark": found.remark}
        label = f"{run}, d_model {vectors.shape[1]}"
    record = explain_positions(tokens, vectors, label, notation, base=base, length=length, **of_run)
    table = explanation_table(record.explanation)
    present(terminal, outputs, PositionExplanationView(record), record, lambda _: table)
