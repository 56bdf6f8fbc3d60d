"""``tfcli explain masking``: the causal mask, and training in parallel."""

from typing import Annotated

import typer

from tfcli.cli.explain.options import (
    Head,
    NotationOption,
    OfLayer,
    OfRun,
    OfToy,
    first_option,
    present_steps,
    subject_of,
)
from tfcli.cli.options import Outputs, Weights, command
from tfcli.cli.terminal import Terminal
from tfcli.errors import UsageError


@command
def masking(
    terminal: Terminal,
    outputs: Outputs,
    *,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default="INF721's scores"),
    ] = None,
    run: OfRun = None,
    of_layer: Annotated[OfLayer, ("layer", "target")],
    head: Head = None,
    of_toy: Annotated[OfToy, ("d_model", "heads", "seed")],
    notation: NotationOption = "inf721",
    weights: Weights,
) -> None:
    """Show how the causal mask hides the future from every row.

    Without a text: INF721's integer scores, worked through. With one, a toy
    decoder reads it, or with --run a real layer, and every row predicts the
    next token at once.

    Examples:

      tfcli explain masking
      tfcli explain masking "Lucas will travel" --notation bishop
      tfcli explain masking "Tom swam" --run runs/decoder-1
    """
    from tfcli.inspection.explain.masking import explain_lecture_masking, explain_masking

    if text is None and run is None:
        option = first_option(of_toy) or (None if head is None else "--head") or first_option(of_layer)
        if option:
            raise UsageError(f"INF721's scores are given, and {option} would change nothing", "add a text to read")
        explanation = explain_lecture_masking(notation)
    else:
        subject = subject_of(text, run, weights, of_layer, of_toy, architecture="decoder")
        explanation = explain_masking(subject, notation, head=head)
    present_steps(terminal, outputs, explanation)
