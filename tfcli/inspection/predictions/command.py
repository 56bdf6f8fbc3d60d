"""``tfcli inspect predictions``: what a model expects at every position."""

from typing import Annotated

import typer

from tfcli.console.options import Outputs, Position, Run, Target, Text, Weights, Words, command, present
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal


@command
def predictions(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Text,
    *,
    target: Target = None,
    position: Position = None,
    top_k: Annotated[int, typer.Option(min=1, help="Candidates to show of each position.")] = 5,
    words: Words = False,
    weights: Weights,
) -> None:
    """Show what a model predicts at every position of a text.

    A decoder predicts the next token, an encoder-decoder that of its target,
    an encoder what stands under a mask, or what it would put where none is.
    Beside it: the true token with its rank and probability, and the entropy.

    Examples:

      tfcli inspect predictions runs/decoder-1 "Tom swam to the"
      tfcli inspect predictions runs/encoder-1 "Tom <mask>am" --top-k 3
      tfcli inspect predictions runs/pt-en-1 "o gato" --target "the cat"
    """
    from tfcli.inspection.predictions.compute import predictions as compute
    from tfcli.inspection.predictions.view import PredictionsView, predictions_table

    text = read_text(text)
    record = compute(weights.load(run), text, target, position=position, top_k=top_k, words=words)
    present(terminal, outputs, PredictionsView(record), record, predictions_table)
