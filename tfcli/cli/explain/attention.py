"""``tfcli explain attention``: from tokens to the output, every matrix with its shape and its formula."""

from typing import Annotated

import typer

from tfcli.cli.explain.options import Head, NotationOption, OfLayer, OfRun, OfToy, Text, present_steps, subject_of
from tfcli.cli.options import Outputs, Weights, command
from tfcli.cli.terminal import Terminal
from tfcli.errors import UsageError


@command
def attention(
    terminal: Terminal,
    outputs: Outputs,
    *,
    text: Text = None,
    run: OfRun = None,
    of_layer: OfLayer,
    head: Head = None,
    of_toy: Annotated[OfToy, ("d_model", "heads", "score", "projection", "seed")],
    cosines: Annotated[bool, typer.Option("--cosines", help="Show cosines beside dot products.")] = False,
    notation: NotationOption = "bishop",
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

    if of_toy.projection is not None and of_toy.score is not None:
        raise UsageError("--projection none takes X itself for queries and keys", "leave --score out")
    if of_toy.projection is not None and of_toy.heads not in (None, 1):
        raise UsageError(f"Without projections there is one head, and not {of_toy.heads}", "leave --heads out")
    subject = subject_of(text, run, weights, of_layer, of_toy)
    present_steps(terminal, outputs, explain_attention(subject, notation, head=head, with_cosines=cosines))
