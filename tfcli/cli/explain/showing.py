"""Where an explanation in steps goes."""

from typing import TYPE_CHECKING

from tfcli.cli.options import Outputs
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.records.explain import Explanation


def present_steps(terminal: Terminal, outputs: Outputs, explanation: "Explanation") -> None:
    """Its steps with every matrix, as a picture, JSON or CSV."""
    from tfcli.render.explain.steps import ExplanationView, explanation_table

    present(terminal, outputs, ExplanationView(explanation), explanation, explanation_table)
