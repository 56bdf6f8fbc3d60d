"""``tfcli explain layer``: one whole layer, from what enters to what leaves."""

from typing import Annotated

import typer

from tfcli.cli.explain.options import NotationOption, OfLayer, OfRun, OfToy, Text, present_steps, subject_of
from tfcli.cli.options import Outputs, Weights, command
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal


@command
def layer(
    terminal: Terminal,
    outputs: Outputs,
    *,
    text: Text = None,
    run: OfRun = None,
    of_layer: OfLayer,
    of_toy: Annotated[OfToy, ("d_model", "heads", "norm_placement", "seed")],
    shapes: Annotated[bool, typer.Option("--shapes", help="Show only the shape of every tensor.")] = False,
    notation: NotationOption = "bishop",
    weights: Weights,
) -> None:
    """Show one whole layer: attention, residuals, norms, feed-forward.

    Norms are shown with the statistics of every token, before and behind.

    Examples:

      tfcli explain layer "Lucas will travel" --norm-placement pre
      tfcli explain layer --shapes --notation cs224n
      tfcli explain layer "Tom swam" --run runs/decoder-1 --layer 1
    """
    from tfcli.inspection.explain.layer import explain_layer
    from tfcli.inspection.explain.shapes import trace_shapes
    from tfcli.render.explain.shapes import ShapesView, shapes_table

    subject = subject_of(text, run, weights, of_layer, of_toy)
    if shapes:
        trace = trace_shapes(subject, notation)
        present(terminal, outputs, ShapesView(trace), trace, shapes_table)
    else:
        present_steps(terminal, outputs, explain_layer(subject, notation))
