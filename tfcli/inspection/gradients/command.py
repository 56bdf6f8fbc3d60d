"""``tfcli inspect gradients``: the gradient norm of every layer, pre-norm beside post-norm."""

from typing import Annotated

import typer

from tfcli.console.options import Outputs, RunOrRecipe, Target, command, present, refuse_beside_run, section_of
from tfcli.console.settings import SHAPE, Asked
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError


@command
def gradients(
    terminal: Terminal,
    outputs: Outputs,
    asked: Annotated[Asked, SHAPE],
    run: RunOrRecipe = None,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="For the run to read.", show_default=False)] = None,
    target: Target = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights and of random tokens.")] = 0,
) -> None:
    """Show the norm of the gradient in every layer, on a log scale.

    Pre-norm beside post-norm, with residuals and without them: before the first
    step on random tokens, or of a RUN on a TEXT. A real backward pass each. With
    it how alike the tokens become, and what a norm does to a gradient.

    Examples:

      tfcli inspect gradients --preset vaswani2017 --size mini --set model.num_layers=12
      tfcli inspect gradients --preset cs224n --size tiny
      tfcli inspect gradients runs/decoder-1 "Tom swam to the bank"
    """
    from tfcli.inspection.gradients.compute import initial_gradients, run_gradients
    from tfcli.inspection.gradients.view import GradientsView, gradients_table
    from tfcli.inspection.passes import read_text
    from tfcli.runs.load import load_run

    if run is None:
        if target is not None:
            raise UsageError("--target is for a run, and without one the tokens are random", "name a run, too")
        record = initial_gradients(section_of(terminal, run, asked), seed)
    else:
        refuse_beside_run(run, asked)
        if text is None:
            raise UsageError(f"The run {run} needs something to read", "give a text behind it")
        loaded = load_run(run)
        record = run_gradients(loaded, read_text(loaded, text, target), seed)
    present(terminal, outputs, GradientsView(record), record, gradients_table)
