"""``tfcli inspect lens``, the logit lens: what a model would predict after each layer."""

from typing import Annotated

import typer

from tfcli.console.options import Outputs, Position, Run, Target, Text, Weights, Words, command, present
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal


@command
def lens(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Text,
    *,
    target: Target = None,
    position: Position = None,
    top_k: Annotated[int, typer.Option(min=1, help="Candidates to show of each layer at one position.")] = 3,
    words: Words = False,
    weights: Weights,
) -> None:
    """Show what a model would predict if it stopped after each layer.

    The logit lens: the residual stream after every layer goes through the last
    norm and the head. A table of layers and positions, then one position's
    likeliest tokens layer by layer.

    Examples:

      tfcli inspect lens runs/decoder-1 "Tom swam to the"
      tfcli inspect lens runs/encoder-1 "Tom <mask>am" --position 2
      tfcli inspect lens runs/pt-en-1 "o gato" --target "the cat" --csv
    """
    from tfcli.inspection.lens.compute import lens as compute
    from tfcli.inspection.lens.view import LensView, lens_table

    text = read_text(text)
    record = compute(weights.load(run), text, target, position=position, top_k=top_k, words=words)
    present(terminal, outputs, LensView(record), record, lens_table)
