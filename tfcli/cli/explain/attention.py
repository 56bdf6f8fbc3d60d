"""``tfcli explain attention``: from tokens to the output, every matrix with its shape and its formula."""

from typing import Annotated, Any, Literal

import typer

from tfcli.cli.explain.options import (
    DModel,
    Head,
    Heads,
    Layer,
    NotationOption,
    OfKind,
    OfRun,
    Text,
    ToySeed,
    present_steps,
    subject_of,
)
from tfcli.cli.options import Outputs, Target, Weights, command
from tfcli.cli.terminal import Terminal
from tfcli.errors import UsageError


@command
def attention(
    terminal: Terminal,
    outputs: Outputs,
    *,
    text: Text = None,
    run: OfRun = None,
    layer: Layer = None,
    head: Head = None,
    kind: OfKind = None,
    target: Target = None,
    d_model: DModel = None,
    heads: Heads = None,
    score: Annotated[
        Literal["scaled_dot", "dot", "additive"] | None,
        typer.Option("--score", help="How queries and keys meet in a toy.", show_default="scaled_dot"),
    ] = None,
    projection: Annotated[
        Literal["none"] | None,
        typer.Option("--projection", help="In a toy, none computes softmax(X Xᵀ) X.", show_default=False),
    ] = None,
    cosines: Annotated[bool, typer.Option("--cosines", help="Show cosines beside dot products.")] = False,
    notation: NotationOption = "bishop",
    seed: ToySeed = None,
    weights: Weights,
) -> None:
    """Show every matrix of an attention, from tokens to output.

    Without --run it is a toy: words are tokens, and weights are drawn from a
    seed. With --run it is a real layer. --notation changes symbols and layout,
    and not the numbers.

    Examples:

      tfcli explain attention "Lucas will travel" --d-model 9 --heads 3
      tfcli explain attention --projection none --d-model 3 --notation udl
      tfcli explain attention "Tom swam" --run runs/decoder-1 --head 1
    """
    from tfcli.inspection.explain.attention import explain_attention

    if projection is not None and score is not None:
        raise UsageError("--projection none takes X itself for queries and keys", "leave --score out")
    if projection is not None and heads not in (None, 1):
        raise UsageError(f"Without projections there is one head, and not {heads}", "leave --heads out")
    of_toy: dict[str, Any] = {"d_model": d_model, "heads": heads, "score": score, "seed": seed}
    if projection is not None:
        of_toy |= {"heads": 1, "score": "parameter_free"} if run is None else {"projection": projection}
    subject = subject_of(text, run, weights, {"layer": layer, "kind": kind, "target": target}, of_toy)
    present_steps(terminal, outputs, explain_attention(subject, notation, head=head, with_cosines=cosines))
