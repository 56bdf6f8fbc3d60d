"""``tfcli inspect predictions``, ``inspect lens`` and ``inspect losses``."""

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
    an encoder each token from all the others, for it is masked alone.
    Beside it: the true token with its rank and probability, and the entropy.

    Examples:

      tfcli inspect predictions runs/decoder-1 "Tom swam to the"
      tfcli inspect predictions runs/encoder-1 "Tom <mask>am" --top-k 3
      tfcli inspect predictions runs/pt-en-1 "o gato" --target "the cat"
    """
    from tfcli.inspection.predictions import compute, view

    text = read_text(text)
    record = compute.predictions(weights.load(run), text, target, position=position, top_k=top_k, words=words)
    present(terminal, outputs, view.PredictionsView(record), record, view.predictions_table)


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
    from tfcli.inspection.predictions import compute, view

    text = read_text(text)
    record = compute.lens(weights.load(run), text, target, position=position, top_k=top_k, words=words)
    present(terminal, outputs, view.LensView(record), record, view.lens_table)


@command
def losses(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Text,
    *,
    target: Target = None,
    words: Words = False,
    weights: Weights,
) -> None:
    """Show a text with the loss of each token.

    The text counts as a whole document, the end of it included, and the mean is
    the loss that evaluate gives it. An encoder masks each token alone. A text
    longer than the context is read in windows.

    Examples:

      tfcli inspect losses runs/decoder-1 "Tom swam to the bank."
      tfcli inspect losses runs/encoder-1 "Tom swam" --json
      tfcli inspect losses runs/pt-en-1 "o gato" --target "the cat"
    """
    from tfcli.inspection.predictions import compute, view

    text = read_text(text)
    record = compute.losses(weights.load(run), text, target, words=words)
    present(terminal, outputs, view.LossesView(record), record, view.losses_table)
