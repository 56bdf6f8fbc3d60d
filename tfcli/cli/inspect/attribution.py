"""``tfcli inspect attribution``, direct logit attribution: what each part of a model adds to a logit."""

from typing import Annotated

import typer

from tfcli.cli.inspect.text_options import Position
from tfcli.cli.options import Outputs, Run, Target, Text, Weights, command
from tfcli.cli.pictures import present
from tfcli.cli.stdin import read_text
from tfcli.cli.terminal import Terminal


@command
def attribution(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Text,
    *,
    target: Target = None,
    position: Position = None,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="The token whose logit is explained.", show_default="the likeliest"),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Subtract the logit of this token.", show_default="nothing")
    ] = None,
    weights: Weights,
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
    from tfcli.inspection.predictions.attribution import attribution as compute
    from tfcli.render.predictions.attribution import AttributionView, attribution_table

    text = read_text(text)
    record = compute(weights.load(run), text, target, position=position, token=token, against=against)
    present(terminal, outputs, AttributionView(record), record, attribution_table)
