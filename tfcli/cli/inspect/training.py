"""``tfcli inspect training``: the curves of a run's training."""

from tfcli.cli.options import Outputs, Run, command
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal


@command
def training(terminal: Terminal, outputs: Outputs, run: Run) -> None:
    """Show how a run's training went.

    Loss, learning rate, gradient norm, the norms of the weights and how far a
    step moves them, by what they are part of.

    Examples:

      tfcli inspect training runs/decoder-1
      tfcli inspect training runs/pt-en-1 --csv
    """
    from tfcli.inspection.training_curves import training_curves
    from tfcli.render.training_curves import TrainingCurvesView, training_curves_table
    from tfcli.runs.finding import existing_run

    curves = training_curves(existing_run(run))
    present(terminal, outputs, TrainingCurvesView(curves), curves, training_curves_table)
