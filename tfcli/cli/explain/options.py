"""What explanations share: their options, the toy or the layer of a run that they speak of, and where the steps go."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.cli.options import Kind, Outputs, Weights, first_given, use_threads
from tfcli.cli.pictures import present
from tfcli.cli.stdin import read_text
from tfcli.cli.terminal import Terminal
from tfcli.errors import UsageError

if TYPE_CHECKING:
    from tfcli.inspection.explain.subject import Subject
    from tfcli.records.explain import Explanation

Text = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default="Lucas will travel"),
]
OfRun = Annotated[
    Path | None,
    typer.Option("--run", metavar="RUN", help="A run, to see a real layer of it.", show_default="a toy"),
]
Layer = Annotated[int | None, typer.Option("--layer", min=0, help="Layer of a run, from 0.", show_default="0")]
Head = Annotated[
    int | None, typer.Option("--head", min=0, help="Head, from 0.", show_default="all of a toy, 0 of a run")
]
OfKind = Annotated[
    Kind | None,
    typer.Option(
        "--kind", metavar="KIND", help="In a run: encoder_self, decoder_self or cross.", show_default="its own"
    ),
]
DModel = Annotated[
    int | None, typer.Option("--d-model", min=1, max=512, help="Size of a toy's vectors.", show_default="9")
]
Heads = Annotated[
    int | None, typer.Option("--heads", min=1, max=64, help="Heads of a toy, which share d_model.", show_default="3")
]
NotationOption = Annotated[
    Literal["bishop", "udl", "cs224n", "inf721"],
    typer.Option("--notation", help="Whose symbols to use. In udl, tokens are columns."),
]
ToySeed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of a toy's weights.", show_default="0")]


def subject_of(
    text: str | None,
    run: Path | None,
    weights: Weights,
    of_run: Mapping[str, Any],
    of_toy: Mapping[str, Any],
    **always: Any,
) -> "Subject":
    """A toy of the options, or with `run` one of its layers on a text.

    Args:
        of_run, of_toy: options that only the one or the other takes, by their parameters; None for its own default.
        always: of a toy, whatever was typed.

    Raises:
        UsageError: an option of the other kind was given, there is no such toy or layer, or no text for a run.
    """
    from tfcli.inspection.explain.run_layer import of_run as layer_of_run
    from tfcli.inspection.explain.toy import EXAMPLE, toy

    other = first_given({f"--{name.replace('_', '-')}": one for name, one in (of_toy if run else of_run).items()})
    if run is None:
        use_threads(weights.threads)
        if other:
            raise UsageError(f"A toy has no {other}", f"name a run with --run, or leave {other} out")
        given = {name: value for name, value in of_toy.items() if value is not None}
        return toy(EXAMPLE if text is None else read_text(text), **given, **always)
    if text is None:
        raise UsageError(f"The run {run} needs a text to read", "write one behind the command")
    if other:
        raise UsageError(f"The run {run} has its own sizes and weights", f"leave {other} out, or leave --run out")
    text = read_text(text)
    return layer_of_run(weights.load(run), text, **{**of_run, "layer": of_run.get("layer") or 0})


def present_steps(terminal: Terminal, outputs: Outputs, explanation: "Explanation") -> None:
    """Show the steps of an explanation with every matrix, as a picture, JSON or CSV."""
    from tfcli.render.explain.steps import ExplanationView, explanation_table

    present(terminal, outputs, ExplanationView(explanation), explanation, explanation_table)
