"""``tfcli inspect losses``: the cross-entropy of each token of a text."""

from tfcli.console.options import Outputs, Run, Target, Text, Weights, Words, command, present
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal


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
    from tfcli.inspection.losses.compute import losses as compute
    from tfcli.inspection.losses.view import LossesView, losses_table

    text = read_text(text)
    record = compute(weights.load(run), text, target, words=words)
    present(terminal, outputs, LossesView(record), record, losses_table)
