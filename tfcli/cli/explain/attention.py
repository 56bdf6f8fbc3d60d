"""``tfcli explain attention``: from tokens to the output, every matrix with its shape and its formula."""

from typing import Annotated, Literal

import typer

from tfcli.cli.explain.options import DModel, Head, Heads, Layer, NotationOption, OfKind, OfRun, Text, ToySeed
from tfcli.cli.explain.showing import present_steps
from tfcli.cli.options import Checkpoint, Device, Outputs, Target, Threads, command, use_threads
from tfcli.cli.terminal import Terminal


@command
def attention(
    terminal: Terminal,
    outputs: Outputs,
    text: Text = None,
    run: OfRun = None,
    layer: Layer = None,
    head: Head = None,
    kind: OfKind = None,
    target: Target = None,
    d_model: DModel = None,
    heads: Heads = None,
    score: Annotated[
        Literal["scaled_dot", "dot", "additive"] | None,
        typer.Option("--score", help="Of a toy: how queries and keys meet.", show_default="scaled_dot"),
    ] = None,
    projection: Annotated[
        Literal["none"] | None,
        typer.Option("--projection", help="Of a toy: none for softmax(X Xᵀ) X.", show_default=False),
    ] = None,
    cosines: Annotated[bool, typer.Option("--cosines", help="Show cosines beside dot products.")] = False,
    notation: NotationOption = "bishop",
    seed: ToySeed = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Show every matrix of an attention, from tokens to output.

    Without --run it is a toy: words are tokens, weights are drawn from a seed.
    With --run it is a real layer. --notation changes symbols and layout, and
    not the numbers.

    Examples:

      tfcli explain attention "Lucas will travel" --d-model 9 --heads 3
      tfcli explain attention --projection none --d-model 3 --notation udl
      tfcli explain attention "Tom swam" --run runs/decoder-1 --head 1
    """
    from tfcli.cli.explain.subject import run_subject, toy_subject
    from tfcli.errors import UsageError
    from tfcli.inspection.explain.attention import explain_attention

    use_threads(threads)
    if projection is not None and score is not None:
        raise UsageError("--projection none takes X itself for queries and keys", "leave --score out")
    if projection is not None and heads not in (None, 1):
        raise UsageError(f"Without projections there is one head, and not {heads}", "leave --heads out")
    of_toy = {"--d-model": d_model, "--heads": heads, "--score": score, "--projection": projection, "--seed": seed}
    of_run = {"--layer": layer, "--kind": kind, "--target": target}
    if run is not None:
        subject = run_subject(run, text, of_toy, checkpoint, device, target=target, kind=kind, layer=layer or 0)
    else:
        alone = projection is not None
        subject = toy_subject(
            text,
            of_run,
            d_model=d_model,
            heads=1 if alone else heads,
            score="parameter_free" if alone else score,
            seed=seed,
        )
    explanation = explain_attention(subject, notation, head=head, with_cosines=cosines)
    present_steps(terminal, outputs, explanation)
