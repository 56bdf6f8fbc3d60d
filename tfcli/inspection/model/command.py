"""``tfcli inspect model``: the architecture, drawn, with every matrix."""

from typing import Annotated

from tfcli.console.options import Outputs, RunOrRecipe, command, present, published, section_of
from tfcli.console.settings import SHAPE, Asked
from tfcli.console.terminal import Terminal


@command
def model(terminal: Terminal, outputs: Outputs, asked: Annotated[Asked, SHAPE], run: RunOrRecipe = None) -> None:
    """Draw a model: its stacks with add and norm, every matrix with its shape.

    Parameters in each box, their sum and their shares; what is tied is counted
    once. A preset of a published model has that model's vocabulary. No weights are
    read or made, so that the largest shapes are drawn, too.

    Examples:

      tfcli inspect model --preset vaswani2017
      tfcli inspect model runs/decoder-1
      tfcli inspect model --preset gpt3
    """
    from tfcli.inspection.model.compute import model_diagram
    from tfcli.inspection.model.view import ModelView, model_table

    record = model_diagram(section_of(terminal, run, asked), published(asked).get("parameters", ""))
    present(terminal, outputs, ModelView(record), record, model_table)
