"""``tfcli inspect attribution``, direct logit attribution: what each part of a model adds to a logit."""

from typing import Annotated

from tfcli.console.options import Outputs, Position, Run, Target, Text, Weights, command, present
from tfcli.console.settings import usual
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal


@command
def attribution(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Text,
    *,
    target: Target = None,
    position: Position = None,
    token: Annotated[str | None, usual("the likeliest", "The token whose logit is explained.", metavar="TOKEN")] = None,
    against: Annotated[str | None, usual("nothing", "Subtract the logit of this token.", metavar="TOKEN")] = None,
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
    from tfcli.inspection.attribution import compute, view

    text = read_text(text)
    record = compute.attribution(weights.load(run), text, target, position=position, token=token, against=against)
    present(terminal, outputs, view.AttributionView(record), record, view.attribution_table)
