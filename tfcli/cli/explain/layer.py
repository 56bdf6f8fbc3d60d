"""``tfcli explain layer``: one whole layer, from what enters to what leaves."""

from typing import Annotated, Literal

import typer

from tfcli.cli.explain.options import DModel, Heads, Layer, NotationOption, OfKind, OfRun, Text, ToySeed
from tfcli.cli.explain.showing import present_steps
from tfcli.cli.options import Checkpoint, Device, Outputs, Target, Threads, command, use_threads
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal


@command
def layer(
    terminal: Terminal,
    outputs: Outputs,
    text: Text = None,
    run: OfRun = None,
    number: Layer = None,
    kind: OfKind = None,
    target: Target = None,
    d_model: DModel = None,
    heads: Heads = None,
    norm_placement: Annotated[
        Literal["pre", "post"] | None,
        typer.Option("--norm-placement", help="Of a toy: norms before or behind.", show_default="post"),
    ] = None,
    shapes: Annotated[bool, typer.Option("--shapes", help="Show the shape of every tensor alone.")] = False,
    notation: NotationOption = "bishop",
    seed: ToySeed = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Show one whole layer: attention, residuals, norms, feed-forward.

    Norms are shown with the statistics of every token, before and behind.

    Examples:

      tfcli explain layer "Lucas will travel" --norm-placement pre
      tfcli explain layer --shapes --notation cs224n
      tfcli explain layer "Tom swam" --run runs/decoder-1 --layer 1
    """
    from tfcli.cli.explain.subject import run_subject, toy_subject
    from tfcli.inspection.explain.layer import explain_layer
    from tfcli.inspection.explain.shapes import trace_shapes
    from tfcli.render.explain.shapes import ShapesView, shapes_table

    use_threads(threads)
    of_toy = {"--d-model": d_model, "--heads": heads, "--norm-placement": norm_placement, "--seed": seed}
    if run is not None:
        subject = run_subject(run, text, of_toy, checkpoint, device, target=target, kind=kind, layer=number or 0)
    else:
        of_run = {"--layer": number, "--kind": kind, "--target": target}
        subject = toy_subject(text, of_run, d_model=d_model, heads=heads, norm_placement=norm_placement, seed=seed)
    if shapes:
        trace = trace_shapes(subject, notation)
        view = ShapesView(trace)
        present(terminal, outputs, view, trace, shapes_table)
        return
    explanation = explain_layer(subject, notation)
    present_steps(terminal, outputs, explanation)
