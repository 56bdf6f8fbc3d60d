"""``tfcli inspect tokens``: how a text becomes ids and vectors."""

from tfcli.cli.inspect.text_options import Words
from tfcli.cli.options import Checkpoint, Outputs, Run, Text, command
from tfcli.cli.pictures import present
from tfcli.cli.stdin import read_text
from tfcli.cli.terminal import Terminal


@command
def tokens(
    terminal: Terminal, outputs: Outputs, run: Run, text: Text, checkpoint: Checkpoint = "best", words: Words = False
) -> None:
    """Show how a text becomes token ids, and ids become vectors.

    With the tokens that a model reads around it, what is unknown, and how many
    tokens a word takes.

    Examples:

      tfcli inspect tokens runs/decoder-1 "Tom swam to the bank"
      tfcli inspect tokens runs/encoder-1 "She sat on the <mask> bank." --csv
    """
    from tfcli.inspection.tokens import tokens as compute
    from tfcli.render.tokenization.text_tokens import TokensView, tokens_json, tokens_table
    from tfcli.runs.load import load_run

    text = read_text(text)
    record = compute(load_run(run, checkpoint), text, words=words)
    present(terminal, outputs, TokensView(record), record, tokens_table, json=tokens_json)
