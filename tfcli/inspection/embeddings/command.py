"""``tfcli inspect tokens|neighbours`` and ``tfcli embed``: what enters a model, and whole texts as vectors."""

from pathlib import Path
from typing import Annotated

import typer

from tfcli.console.options import Checkpoint, Csv, Json, Outputs, Run, Text, Weights, Words, command, present
from tfcli.console.settings import usual
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError
from tfcli.inspection.embeddings import MatrixSide, Pool
from tfcli.outputs import require_output, writing


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
    from tfcli.inspection.embeddings import compute, view
    from tfcli.runs.load import load_run

    text = read_text(text)
    record = compute.tokens(load_run(run, checkpoint), text, words=words)
    present(terminal, outputs, view.TokensView(record), record, view.tokens_table)


@command
def neighbours(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    tokens: Annotated[list[str], typer.Argument(metavar="TOKEN", help="Words or parts of words.", show_default=False)],
    top_k: Annotated[int, typer.Option(min=1, help="Neighbours to show of each token.")] = 10,
    matrix: Annotated[MatrixSide, typer.Option(help="The input embeddings, or the rows of an untied head.")] = "input",
    checkpoint: Checkpoint = "best",
) -> None:
    """Show which tokens' embeddings point the same way.

    Words that are used alike get similar vectors, and so do translations.

    Examples:

      tfcli inspect neighbours runs/decoder-1 a e
      tfcli inspect neighbours runs/pt-en-1 the --top-k 5 --json
    """
    from tfcli.inspection.embeddings import compute, view
    from tfcli.runs.load import load_run

    record = compute.neighbours(load_run(run, checkpoint), tokens, top_k, matrix)
    present(terminal, outputs, view.NeighboursView(record), record, view.neighbours_table)


_TOKENS = typer.Argument(metavar="[TOKEN]…", help="Words or parts of words.", show_default="the commonest")
_ON = "Texts, labelled with the word's sense or not; without a word, any."


@command
def embeddings(
    terminal: Terminal,
    outputs: Outputs,
    *,
    run: Run,
    tokens: Annotated[list[str] | None, _TOKENS] = None,
    word: Annotated[str | None, typer.Option(metavar="WORD", help="A word, whose vectors in texts are drawn.")] = None,
    on: Annotated[list[str] | None, usual("a built-in corpus", _ON, metavar="SOURCE")] = None,
    weights: Weights,
) -> None:
    """Draw the principal components of tokens, or of a word in its contexts.

    Of tokens their rows of the embedding matrix. Of a word a map behind the
    embedding and behind each layer, with its senses as letters; whether their
    vectors are apart is measured by a probe, not by eye.

    Examples:

      tfcli inspect embeddings runs/decoder-1 a e i n t
      tfcli inspect embeddings runs/encoder-1 --word bank
      tfcli inspect embeddings runs/decoder-1 --word web --on web.jsonl --csv
    """
    from tfcli.inspection.embeddings import compute, view

    if tokens and (word or on):
        raise UsageError("TOKENs are rows of E, and --word and --on are of texts", "leave one of the two out")
    with terminal.progress() as say:
        say("reading texts")
        record = compute.embeddings(weights.load(run), *(tokens or ()), word=word, on=on or ())
    present(terminal, outputs, view.ComponentsView(record), record, view.components_table)


_BATCH = 32


@command
def embed(
    terminal: Terminal,
    *,
    run: Run,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT|-", help="Texts; -: each line of stdin is one.", show_default="-"),
    ] = None,
    pool: Annotated[Pool, typer.Option(help="A text's vector: the mean over its tokens, or one of them.")] = "mean",
    layer: Annotated[int | None, usual("the last, behind its norm", "Layer, from 0.", min=0)] = None,
    npz: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write texts and vectors for NumPy.")] = None,
    weights: Weights,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Turn whole texts into vectors, and show how alike they are.

    In an encoder-decoder they are the encoder's. They are not normalised.

    Examples:

      tfcli embed runs/encoder-1 "Tom swam." "Tom swam across." "The bank closed."
      tfcli embed runs/encoder-1 --npz vectors.npz < prompts.txt
      tfcli embed runs/pt-en-1 "O gato dorme." --json
    """
    from tfcli.console.stdin import argument_batches
    from tfcli.draw.tables import to_csv
    from tfcli.inspection.embeddings import compute, view
    from tfcli.inspection.passes import text_ids

    Outputs(csv=csv, json=json)
    if npz is not None:
        require_output(npz, "--npz")
    loaded = weights.load(run)

    def require(text: str) -> None:
        text_ids(loaded, text)

    found = []
    for record in compute.embed(loaded, argument_batches(texts or ["-"], require, _BATCH), pool, layer):
        if json:
            for line in view.embedding_lines(record):
                terminal.json(line)
        if npz is not None or not json:
            found.append(record)
    if not found:
        return
    whole = compute.joined(found)
    if npz is not None:
        import numpy as np

        with writing(npz, "--npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, texts=np.array(whole.texts), vectors=whole.vectors)
    if csv:
        terminal.write(to_csv(view.embeddings_table(whole)))
    elif not json:
        terminal.show(view.EmbeddingsView(whole))
