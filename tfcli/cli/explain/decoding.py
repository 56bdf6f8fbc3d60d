"""``tfcli explain decoding``: from logits to the next token."""

from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from tfcli.cli.options import Checkpoint, Device, Outputs, Threads, command, open_run, use_threads
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal

_OF_TOY = {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "beam": 2, "seed": 0}
_DEFAULT = "the run's own; a toy: "


@command
def decoding(
    terminal: Terminal,
    outputs: Outputs,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What a run goes on from; - for stdin.", show_default=False),
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="A trained model.", show_default="a toy language")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option("--temperature", min=0, help="Divides the logits; 0: greedy.", show_default=_DEFAULT + "0.5"),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", min=0, help="Draw from the k best alone; 0: all.", show_default=_DEFAULT + "3"),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            "--top-p",
            min=0,
            max=1,
            help="Draw from the fewest best that hold this probability.",
            show_default=_DEFAULT + "0.9",
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option("--beam", min=2, max=1_000, help="Beams beside greedy decoding.", show_default=_DEFAULT + "2"),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Tokens at most.")] = 4,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the draw.", show_default=_DEFAULT + "0")
    ] = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Show how a next token is drawn, stage by stage, and what a beam sees.

    Logits, temperature, the filters, and the random number that decides: the
    draws of tfcli generate, with a run's own settings. The toy can be checked by hand: at first, what may
    follow has 8, 4, 2, 1 and 1 sixteenths, and greedy decoding is wrong.

    Examples:

      tfcli explain decoding
      tfcli explain decoding --temperature 1 --top-k 0 --top-p 1
      tfcli explain decoding "Tom swam" --run runs/decoder-1 --steps 3
    """
    from tfcli.cli.stdin import read_text
    from tfcli.errors import UsageError
    from tfcli.inspection.explain.decoding import explain_decoding, explain_toy_decoding, run_settings
    from tfcli.recipe.loading import build_recipe
    from tfcli.render.explain.decoding import DecodingView, decoding_table

    use_threads(threads)
    if temperature is not None and not isfinite(temperature):
        raise UsageError(f"--temperature {temperature} is no finite number", "choose one from 0 on")
    if top_p is not None and not top_p > 0:
        raise UsageError(f"--top-p {top_p:g} leaves no token to draw", "choose more than 0, and at most 1")
    typed: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "beam": beam, "seed": seed}
    given = {name: value for name, value in typed.items() if value is not None} | {"max_new_tokens": steps}
    if run is not None:
        loaded = open_run(run, checkpoint, device)
        prompt = "" if text is None else read_text(text)
        record = explain_decoding(loaded, prompt, run_settings(loaded, given))
    elif text is not None:
        raise UsageError("A toy language has a beginning of its own", "add --run RUN, or leave the text out")
    else:
        record = explain_toy_decoding(build_recipe({"generate": {**_OF_TOY, **given}}).generate)
    present(terminal, outputs, DecodingView(record), record, decoding_table)
