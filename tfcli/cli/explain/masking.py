"""``tfcli explain masking``: the causal mask, and training in parallel."""

from typing import Annotated, Any

import typer

from tfcli.cli.explain.options import DModel, Head, Heads, Layer, NotationOption, OfRun, ToySeed
from tfcli.cli.explain.showing import present_steps
from tfcli.cli.options import Checkpoint, Device, Outputs, Target, Threads, command, first_given, use_threads
from tfcli.cli.terminal import Terminal


@command
def masking(
    terminal: Terminal,
    outputs: Outputs,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default="INF721's scores"),
    ] = None,
    run: OfRun = None,
    layer: Layer = None,
    head: Head = None,
    target: Target = None,
    d_model: DModel = None,
    heads: Heads = None,
    notation: NotationOption = "inf721",
    seed: ToySeed = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Show how the causal mask hides the future from every row.

    Without a text: INF721's integer scores, worked through. With one, a toy
    decoder reads it, or with --run a real layer, and every row predicts the
    next token at once.

    Examples:

      tfcli explain masking
      tfcli explain masking "Lucas will travel" --notation bishop
      tfcli explain masking "Tom swam" --run runs/decoder-1
    """
    from tfcli.errors import UsageError
    from tfcli.inspection.explain.masking import explain_lecture_masking, explain_masking

    use_threads(threads)
    of_toy = {"--d-model": d_model, "--heads": heads, "--seed": seed}
    if text is None and run is None:
        if option := first_given({**of_toy, "--head": head, "--layer": layer, "--target": target}):
            raise UsageError(f"INF721's scores are given, and {option} would change nothing", "add a text to read")
        explanation = explain_lecture_masking(notation)
    else:
        subject = _subject(run, text, of_toy, layer, target, checkpoint, device)
        explanation = explain_masking(subject, notation, head=head)
    present_steps(terminal, outputs, explanation)


def _subject(
    run: Any, text: str | None, of_toy: dict[str, Any], layer: int | None, target: str | None, *of_run: str
) -> Any:
    from tfcli.cli.explain.subject import run_subject, toy_subject

    if run is not None:
        return run_subject(run, text, of_toy, *of_run, target=target, layer=layer or 0)
    d_model, heads, seed = of_toy.values()
    return toy_subject(
        text, {"--layer": layer, "--target": target}, architecture="decoder", d_model=d_model, heads=heads, seed=seed
    )
