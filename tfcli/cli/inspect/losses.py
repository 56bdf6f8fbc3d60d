"""``tfcli inspect losses``: the cross-entropy of each token of a text."""

from tfcli.cli.inspect.text_options import Words
from tfcli.cli.options import Outputs, Run, Target, Text, Weights, command
from tfcli.cli.pictures import present
from tfcli.cli.stdin import read_text
from tfcli.cli.terminal import Terminal


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
    from tfcli.inspection.predictions.losses import losses as compute
    from tfcli.render.predictions.losses import LossesView, losses_table

    text = read_text(text)
    record = compute(weights.load(run), text, target, words=words)
    present(terminal, outputs, LossesView(record), record, losses_table)
