"""``tfcli inspect attribution``: direct logit attribution, to parts of a model; input attribution, to its tokens."""

from typing import Annotated, Any, Literal

import typer

from tfcli.console.options import Evolution, Outputs, Position, Run, Target, Text, Weights, command, present
from tfcli.console.settings import usual
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal
from tfcli.inspection.attribution import InputMethod


@command
def attribution(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Text,
    *,
    target: Target = None,
    position: Position = None,
    method: Annotated[
        Literal["direct", InputMethod, "all"],
        typer.Option(help="Parts of the model (direct), or the tokens that are read, by a method or all."),
    ] = "direct",
    token: Annotated[str | None, usual("the likeliest", "The token that is explained.", metavar="TOKEN")] = None,
    against: Annotated[str | None, usual("nothing", "Subtract the logit of this token.", metavar="TOKEN")] = None,
    evolution: Evolution = False,
    weights: Weights,
) -> None:
    """Show what a token's logit owes to each part of the model.

    The logit is the sum of what the embeddings, every head, every MLP and the
    biases have added to the residual stream, each read in the token's
    direction. --against shows what decides between two tokens. Every other
    --method divides the prediction among the tokens that are read, and says
    whether replacing them in its order does more than in a random one.

    Examples:

      tfcli inspect attribution runs/decoder-1 "Tom swam to the"
      tfcli inspect attribution runs/decoder-1 "Tom s" --token w --against a
      tfcli inspect attribution runs/pt-en-1 "o gato" --target "the" --position 0
      tfcli inspect attribution runs/decoder-1 "Tom swam to the" --method all
    """
    from tfcli.inspection.attribution import compute, inputs, view

    asked: dict[str, Any] = {"position": position, "token": token, "against": against}
    asked |= {} if method in ("direct", "all") else {"methods": (method,)}
    text, loaded = read_text(text), weights.load(run)
    picture: Any = compute.attribution if method == "direct" else inputs.input_attribution
    if evolution:
        from tfcli.inspection.evolution.compute import evolution as over
        from tfcli.inspection.evolution.view import EvolutionView, evolution_table

        evolved = over(loaded, picture, text, target, **asked)
        present(terminal, outputs, EvolutionView(evolved), evolved, evolution_table)
        return
    record = picture(loaded, text, target, **asked)
    if method == "direct":
        present(terminal, outputs, view.AttributionView(record), record, view.attribution_table)
    else:
        present(terminal, outputs, view.InputAttributionView(record), record, view.inputs_table)
