"""``tfcli embed``: text embeddings, whole texts as vectors."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfcli.cli.options import Checkpoint, Csv, Device, Json, Outputs, Run, Threads, command, open_run, use_threads
from tfcli.cli.terminal import Terminal
from tfcli.outputs import require_output, writing

if TYPE_CHECKING:
    from tfcli.records.embeddings import EmbeddingsRecord

_BATCH = 32


@command
def embed(
    terminal: Terminal,
    run: Run,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT|-", help="Texts; -: each line of stdin is one.", show_default="-"),
    ] = None,
    pool: Annotated[
        Literal["mean", "first", "last"],
        typer.Option(help="A text's vector: the mean over its tokens, or one of them."),
    ] = "mean",
    layer: Annotated[
        int | None, typer.Option(min=0, help="Layer, from 0.", show_default="the last, behind its norm")
    ] = None,
    npz: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write texts and vectors as a NumPy archive.")
    ] = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
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
    from tfcli.cli.prompts import argument_batches
    from tfcli.inspection.embeddings import embed as compute
    from tfcli.inspection.embeddings import joined
    from tfcli.inspection.reading import text_ids
    from tfcli.render.embeddings import EmbeddingsView, embedding_lines, embeddings_table
    from tfcli.render.table_csv import to_csv

    Outputs(csv=csv, json=json)
    if npz is not None:
        require_output(npz, "--npz")
    use_threads(threads)
    loaded = open_run(run, checkpoint, device)

    def require(text: str) -> None:
        text_ids(loaded, text)

    found = []
    for record in compute(loaded, argument_batches(texts or ["-"], require, _BATCH), pool, layer):
        if json:
            for line in embedding_lines(record):
                terminal.json(line)
        if npz is not None or not json:
            found.append(record)
    if not found:
        return
    whole = joined(found)
    if npz is not None:
        _write_npz(npz, whole)
    if csv:
        terminal.write(to_csv(embeddings_table(whole)))
    elif not json:
        terminal.show(EmbeddingsView(whole))


def _write_npz(path: Path, record: "EmbeddingsRecord") -> None:
    """Arrays named `texts` and `vectors`."""
    import numpy as np

    with writing(path, "--npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, texts=np.array(record.texts), vectors=record.vectors)
