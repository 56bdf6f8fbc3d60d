"""``tfcli explain masking``: the causal mask, and training in parallel."""

from typing import Annotated

import typer

from tfcli.cli.explain.options import (
    DModel,
    Head,
    Heads,
    Layer,
    NotationOption,
    OfRun,
    ToySeed,
    present_steps,
    subject_of,
)
from tfcli.cli.options import Outputs, Target, Weights, command, first_given
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
    layer: Layer = None,
    head: Head = None,
    target: Target = None,
    d_model: DModel = None,
    heads: Heads = None,
    notation: NotationOption = "inf721",
    seed: ToySeed = None,
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

    of_run, of_toy = {"layer": layer, "target": target}, {"d_model": d_model, "heads": heads, "seed": seed}
    if text is None and run is None:
        if other := first_given({**of_toy, "head": head, **of_run}):
            option = f"--{other.replace('_', '-')}"
            raise UsageError(f"INF721's scores are given, and {option} would change nothing", "add a text to read")
        explanation = explain_lecture_masking(notation)
    else:
        subject = subject_of(text, run, weights, of_run, of_toy, architecture="decoder")
        explanation = explain_masking(subject, notation, head=head)
    present_steps(terminal, outputs, explanation)
