"""``tfcli inspect attribution``: what a logit owes to each part of a model."""

from typing import Annotated

import typer

from tfcli.cli.inspect.text_options import Position
from tfcli.cli.options import Checkpoint, Device, Outputs, Run, Target, Text, Threads, command, open_run, use_threads
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal


@command
def attribution(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Text,
    target: Target = None,
    position: Position = None,
    token: Annotated[
        str | None,
        typer.Option("--token", metavar="TOKEN", help="Whose logit, by its text.", show_default="the likeliest"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="TOKEN", help="Take this token's logit off.", show_default="nothing"),
    ] = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Show what a token's logit owes to each part of the model.

    The logit is the sum of what the embeddings, every head, every MLP and the
    biases have added to the residual stream, each read in the token's
    direction. --against shows what decides between two tokens.

    Examples:

      tfcli inspect attribution runs/decoder-1 "Tom swam to the"
      tfcli inspect attribution runs/decoder-1 "Tom s" --token w --against a
      tfcli inspect attribution runs/pt-en-1 "o gato" --target "the" --position 0
    """
    from tfcli.cli.stdin import read_text
    from tfcli.inspection.predictions.attribution import attribution as compute
    from tfcli.render.predictions.attribution import AttributionView, attribution_table

    use_threads(threads)
    text = read_text(text)
    loaded = open_run(run, checkpoint, device)
    record = compute(loaded, text, target, position=position, token=token, against=against)
    present(terminal, outputs, AttributionView(record), record, attribution_table)
