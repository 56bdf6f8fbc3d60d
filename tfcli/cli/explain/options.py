"""What explanations share: a toy or a layer of a run with their options, and where the steps go."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.cli.options import Kind, Outputs, Target, Weights, first_given, use_threads
from tfcli.cli.pictures import present
from tfcli.cli.stdin import read_text
from tfcli.cli.terminal import Terminal
from tfcli.errors import UsageError

if TYPE_CHECKING:
    from tfcli.inspection.explain.subject import Subject
    from tfcli.records.explain import Explanation

Text = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default="Lucas will travel")
]
OfRun = Annotated[
    Path | None, typer.Option("--run", metavar="RUN", help="A run, to see a real layer of it.", show_default="a toy")
]
Head = Annotated[
    int | None, typer.Option("--head", min=0, help="Head, from 0.", show_default="all of a toy, 0 of a run")
]
NotationOption = Annotated[
    Literal["bishop", "udl", "cs224n", "inf721"],
    typer.Option("--notation", help="Whose symbols to use. In udl, tokens are columns."),
]
ToySeed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of a toy's weights.", show_default="0")]


@dataclass(frozen=True)
class OfLayer:
    """Options that only a layer of a run takes."""

    layer: Annotated[int | None, typer.Option("--layer", min=0, help="Layer of a run, from 0.", show_default="0")] = (
        None
    )
    kind: Annotated[
        Kind | None,
        typer.Option(metavar="KIND", help="In a run: encoder_self, decoder_self or cross.", show_default="its own"),
    ] = None
    target: Target = None


@dataclass(frozen=True)
class OfToy:
    """Options that only a toy takes."""

    d_model: Annotated[int | None, typer.Option(min=1, max=512, help="Size of a toy's vectors.", show_default="9")] = (
        None
    )
    heads: Annotated[
        int | None, typer.Option(min=1, max=64, help="Heads of a toy, which share d_model.", show_default="3")
    ] = None
    score: Annotated[
        Literal["scaled_dot", "dot", "additive"] | None,
        typer.Option(help="How queries and keys meet in a toy.", show_default="scaled_dot"),
    ] = None
    projection: Annotated[
        Literal["none"] | None, typer.Option(help="In a toy, none computes softmax(X Xᵀ) X.", show_default=False)
    ] = None
    norm_placement: Annotated[
        Literal["pre", "post"] | None,
        typer.Option(help="In a toy: norms before or behind each sublayer.", show_default="post"),
    ] = None
    seed: ToySeed = None


def first_option(options: OfLayer | OfToy) -> str | None:
    """The first of these options that was given."""
    return first_given({f"--{name.replace('_', '-')}": value for name, value in asdict(options).items()})


def subject_of(
    text: str | None, run: Path | None, weights: Weights, of_layer: OfLayer, of_toy: OfToy, **always: Any
) -> "Subject":
    """A toy of the options, or with `run` one of its layers on a text.

    Args:
        always: what a toy is, whatever was typed.

    Raises:
        UsageError: an option of the other kind was given, there is no such toy or layer, or no text for a run.
    """
    from tfcli.inspection.explain.run_layer import of_run
    from tfcli.inspection.explain.toy import EXAMPLE, toy

    if run is None:
        use_threads(weights.threads)
        if other := first_option(of_layer):
            raise UsageError(f"A toy has no {other}", f"name a run with --run, or leave {other} out")
        given = {name: value for name, value in asdict(of_toy).items() if value is not None}
        if given.pop("projection", None):
            given |= {"heads": 1, "score": "parameter_free"}
        return toy(EXAMPLE if text is None else read_text(text), **given, **always)
    if text is None:
        raise UsageError(f"The run {run} needs a text to read", "write one behind the command")
    if other := first_option(of_toy):
        raise UsageError(f"The run {run} has its own sizes and weights", f"leave {other} out, or leave --run out")
    text = read_text(text)
    layer = of_layer.layer or 0
    return of_run(weights.load(run), text, target=of_layer.target, kind=of_layer.kind, layer=layer)


def present_steps(terminal: Terminal, outputs: Outputs, explanation: "Explanation") -> None:
    """Show the steps of an explanation with every matrix, as a picture, JSON or CSV."""
    from tfcli.render.explain.steps import ExplanationView, explanation_table

    present(terminal, outputs, ExplanationView(explanation), explanation, explanation_table)
