"""``tfcli inspect neighbours``: the nearest neighbours of a token among the embeddings."""

from typing import Annotated, Literal

import typer

from tfcli.cli.options import Checkpoint, Outputs, Run, command
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal


@command
def neighbours(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    tokens: Annotated[list[str], typer.Argument(metavar="TOKEN", help="Words or parts of words.", show_default=False)],
    top_k: Annotated[int, typer.Option(min=1, help="Neighbours to show of each token.")] = 10,
    matrix: Annotated[
        Literal["input", "output"],
        typer.Option(help="The input embeddings, or the rows of the output head where they are not tied."),
    ] = "input",
    checkpoint: Checkpoint = "best",
) -> None:
    """Show which tokens' embeddings point the same way.

    Words that are used alike get similar vectors, and so do translations.

    Examples:

      tfcli inspect neighbours runs/decoder-1 a e
      tfcli inspect neighbours runs/pt-en-1 the --top-k 5 --json
    """
    from tfcli.inspection.neighbours import neighbours as compute
    from tfcli.render.neighbours import NeighboursView, neighbours_table
    from tfcli.runs.load import load_run

    record = compute(load_run(run, checkpoint), tokens, top_k, matrix)
    present(terminal, outputs, NeighboursView(record), record, neighbours_table)
