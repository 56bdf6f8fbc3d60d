"""``tfcli runs`` and ``tfcli inspect training``: runs in a list, one in full, several side by side, and as curves."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.console.options import Json, Outputs, Run, ThemeOption, command, present, require_picture
from tfcli.console.terminal import Terminal
from tfcli.outputs import about, require_output, write_output

if TYPE_CHECKING:
    from tfcli.records.runs import RunDetail, RunSummary

runs_app = typer.Typer()
Folder = Annotated[Path | None, typer.Argument(metavar="FOLDER", help="Where your runs are.", show_default="runs")]
_SORT = "What to sort by; the newest, best, smallest or shortest come first."
Sort = Annotated[Literal["age", "name", "loss", "parameters", "steps", "time"], typer.Option("--sort", help=_SORT)]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Two run directories or more.", show_default=False)]
By = Annotated[Literal["step", "tokens", "time"], typer.Option("--by", help="What the curves are drawn over.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write every point of the curves.")]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Also draw the curves into a file.")]


@runs_app.command("list")
@command
def list_runs(terminal: Terminal, folder: Folder = None, sort: Sort = "age", json: Json = False) -> None:
    """List the runs in a folder and in the folders inside it.

    Each with its state, model, steps, best validation loss and the step it
    was reached at, training time, and when it was last written to. No
    weights are read, so that a thousand runs take seconds.

    Examples:

      tfcli runs list
      tfcli runs list runs --sort loss
    """
    from tfcli.draw.tables import to_json
    from tfcli.runs import directory, overview, view

    place = folder or directory.RUNS
    nothing_yet = folder is None and not place.exists()
    field = {"age": "age_seconds", "loss": "best_loss", "steps": "step", "time": "seconds"}.get(sort, sort)

    def order(summary: "RunSummary") -> Any:  # what a run does not tell comes last, equal ones by name
        value = getattr(summary, field)
        return (value is None, value if value is not None else 0, summary.name)

    runs = sorted(map(overview.summarize, [] if nothing_yet else directory.find_runs(place)), key=order)
    if json:
        for summary in runs:
            terminal.json(to_json(summary))
    elif runs:
        terminal.show(view.RunList(runs))
    if not runs:
        terminal.note(f"There are no runs in {place}. Begin one: tfcli train --arch decoder")


@runs_app.command("show")
@command
def show_run(
    terminal: Terminal, run: Run, csv: Csv = None, svg: Svg = None, json: Json = False, theme: ThemeOption = "auto"
) -> None:
    """Show all of one run, with its curves.

    Its text, tokenizer, model and settings; how far it was trained; the
    training loss with the evaluations, the learning rate, and its files.

    Examples:

      tfcli runs show runs/decoder-1
      tfcli runs show runs/decoder-1 --svg curve.svg --csv curve.csv
    """
    from tfcli.draw.svg import captioned, picture_svg
    from tfcli.runs import curves_view, overview, view

    require_picture(theme, svg)
    for path, option in ((csv, "--csv"), (svg, "--svg")):
        if path is not None:
            require_output(path, option)
    detail = overview.read_detail(run)
    terminal.result(detail, view.RunView, json=json)
    if csv is not None:
        write_output(csv, "--csv", view.history_csv(detail.history))
    if svg is not None:
        drawn = picture_svg(curves_view.curves_picture(detail.summary.name, detail.history), theme=theme)
        write_output(svg, "--svg", captioned(drawn, **about))
    if not json:
        terminal.note(_next(detail))


@runs_app.command("compare")
@command
def compare_runs(terminal: Terminal, outputs: Outputs, runs: Runs, by: By = "step") -> None:
    """Compare runs: what they reached, where they differ, and their curves.

    Only the settings that differ are shown. Runs that differ only in their
    seed are a group: mean, standard deviation, and the paired difference
    from other groups. Losses per token are comparable between runs with the
    same tokenizer and text; a note says if they are not.

    Examples:

      tfcli runs compare runs/decoder-1 runs/decoder-2
      tfcli runs compare runs/decoder-1 runs/decoder-2 --by time --svg curves.svg
    """
    from tfcli.runs import overview, view

    comparison = overview.compare(runs)
    shown = view.ComparisonView(comparison, by)
    present(terminal, outputs, shown, comparison, view.comparison_table)


def _next(detail: "RunDetail") -> str:
    """What to type next, by the run's state."""
    run = shlex.quote(detail.summary.path)
    if detail.summary.state == "running":
        return f"It is training now. Look again: tfcli runs show {run}"
    if detail.summary.state == "interrupted":
        return f"Go on with it: tfcli train --resume {run}"
    source = " SOURCE" if detail.summary.state == "imported" else ""
    return f"Try: tfcli evaluate {run}{source} · tfcli inspect attention {run} TEXT"


@command
def training(terminal: Terminal, outputs: Outputs, run: Run) -> None:
    """Show how a run's training went.

    Loss, learning rate, gradient norm, the norms of the weights and how far a
    step moves them, by what they are part of.

    Examples:

      tfcli inspect training runs/decoder-1
      tfcli inspect training runs/pt-en-1 --csv
    """
    from tfcli.runs import curves_view, directory, metrics

    curves = metrics.training_curves(directory.existing_run(run))
    present(terminal, outputs, curves_view.TrainingCurvesView(curves), curves, curves_view.training_curves_table)
