"""``tfcli runs``: what has been trained, one run in full, and several side by side."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.cli.options import Json, Run, command
from tfcli.cli.terminal import Terminal
from tfcli.outputs import about, require_output, write_output

if TYPE_CHECKING:
    from tfcli.records.runs import RunDetail, RunSummary

runs_app = typer.Typer()

Folder = Annotated[Path | None, typer.Argument(metavar="FOLDER", help="Where your runs are.", show_default="runs")]
Sort = Annotated[
    Literal["age", "name", "loss", "parameters", "steps", "time"],
    typer.Option("--sort", help="What to sort by; the newest, best, smallest or shortest come first."),
]
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
    from tfcli.runs.directory import RUNS
    from tfcli.runs.finding import find_runs
    from tfcli.runs.overview import summarize

    place = folder or RUNS
    nothing_yet = folder is None and not place.exists()
    runs = sorted(map(summarize, [] if nothing_yet else find_runs(place)), key=_order(sort))
    if json:
        from tfcli.render.as_json import to_json

        for summary in runs:
            terminal.json(to_json(summary))
    elif runs:
        from tfcli.render.runs.list import RunList

        terminal.show(RunList(runs))
    if not runs:
        terminal.note(f"There are no runs in {place}. Begin one: tfcli train --arch decoder")


@runs_app.command("show")
@command
def show_run(terminal: Terminal, run: Run, csv: Csv = None, svg: Svg = None, json: Json = False) -> None:
    """Show all of one run, with its curves.

    Its text, tokenizer, model and settings; how far it was trained; the
    training loss with the evaluations, the learning rate, and its files.

    Examples:

      tfcli runs show runs/decoder-1
      tfcli runs show runs/decoder-1 --svg curve.svg --csv curve.csv
    """
    from tfcli.render.runs.detail import RunView
    from tfcli.runs.detail import read_detail

    for path, option in ((csv, "--csv"), (svg, "--svg")):
        if path is not None:
            require_output(path, option)
    detail = read_detail(run)
    terminal.result(detail, RunView, json=json)
    if csv is not None:
        from tfcli.render.runs.history_csv import history_csv

        write_output(csv, "--csv", history_csv(detail.history))
    if svg is not None:
        from tfcli.render.curve_svg import curve_svg
        from tfcli.render.picture import captioned
        from tfcli.render.runs.curves import run_plots
        from tfcli.render.safe import printable

        drawn = curve_svg(printable(detail.summary.name), tuple(run_plots(detail.history)))
        write_output(svg, "--svg", captioned(drawn, **about))
    if not json:
        terminal.note(_next(detail))


@runs_app.command("compare")
@command
def compare_runs(terminal: Terminal, runs: Runs, by: By = "step", json: Json = False) -> None:
    """Compare runs: what they reached, where they differ, and their curves.

    Only the settings that differ are shown. The loss of a token can be compared
    between runs of one tokenizer and one text; where it cannot, that is said.

    Examples:

      tfcli runs compare runs/decoder-1 runs/decoder-2
      tfcli runs compare runs/decoder-1 runs/decoder-2 --by time
    """
    from tfcli.render.runs.comparison import ComparisonView
    from tfcli.runs.detail import compare

    terminal.result(compare(runs), lambda comparison: ComparisonView(comparison, by), json=json)


def _order(sort: str) -> Callable[["RunSummary"], Any]:
    """A key for `sorted`; what a run does not tell comes last, equal ones by name."""
    field = {"age": "age_seconds", "loss": "best_loss", "steps": "step", "time": "seconds"}.get(sort, sort)

    def key(summary: "RunSummary") -> Any:
        value = getattr(summary, field)
        return (value is None, value if value is not None else 0, summary.name)

    return key


def _next(detail: "RunDetail") -> str:
    """What to type next, by the run's state."""
    run = shlex.quote(detail.summary.path)
    if detail.summary.state == "running":
        return f"It is training now. Look again: tfcli runs show {run}"
    if detail.summary.state == "interrupted":
        return f"Go on with it: tfcli train --resume {run}"
    source = " SOURCE" if detail.summary.state == "imported" else ""
    return f"Try: tfcli evaluate {run}{source} · tfcli inspect attention {run} TEXT"
