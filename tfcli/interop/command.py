"""``tfcli import`` and ``tfcli export``: Hugging Face checkpoints in and out."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.console.options import Checkpoint, Json, Run, argument, command
from tfcli.console.terminal import Terminal

_SOURCE = "A checkpoint: a folder, or hf:owner/name\\[@revision]."
_OUT, _FILE = "runs/<name>-<n>", "A tokenizer.json to use."
_IGNORED = "Leave out this setting of config.json, which tfcli does not have; repeatable."
_BOS, _USUAL_BOS = "The token that every text begins with.", "what its tokenizer puts there"


@command
def import_(
    terminal: Terminal,
    source: Annotated[str, argument(metavar="FOLDER|hf:NAME", help=_SOURCE)],
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="Where to put the run.", show_default=_OUT)] = None,
    tokenizer: Annotated[Path | None, typer.Option(metavar="FILE", help=_FILE, show_default="the checkpoint's")] = None,
    ignore_setting: Annotated[list[str] | None, typer.Option(metavar="KEY", help=_IGNORED, show_default=False)] = None,
    bos: Annotated[str | None, typer.Option(metavar="TOKEN|none", help=_BOS, show_default=_USUAL_BOS)] = None,
    json: Json = False,
) -> None:
    """Turn a Hugging Face checkpoint into a run.

    Reads GPT-2, Llama (Mistral, Qwen, Granite), BERT, EuroBERT, BART, Marian
    and T5. The run can then do what every run can: generate, evaluate,
    inspect, train on.

    Examples:

      tfcli import hf:openai-community/gpt2 --out runs/gpt2
      tfcli import ./checkpoint --out runs/mine --tokenizer tokenizer.json
    """
    from tfcli.interop import importing, view

    record = importing.import_run(source, out, tokenizer, ignore_setting or (), bos)
    terminal.result(record, view.imported_view, json=json)
    following = "generate" if record.has_head else "inspect attention"
    if not json:
        terminal.note(f"Next: tfcli {following} {shlex.quote(record.path)} TEXT")


@command
def export(
    terminal: Terminal,
    run: Run,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to make.")],
    format: Annotated[Literal["hf"], typer.Option(help="hf: for the transformers library.")] = "hf",
    checkpoint: Checkpoint = "best",
    json: Json = False,
) -> None:
    """Write a run as a folder that the transformers library loads.

    AutoTokenizer loads the folder, and so does the AutoModel class that is
    named at the end.

    Examples:

      tfcli export runs/decoder-1 --out exported
      tfcli export runs/decoder-1 --checkpoint last --out exported-last
    """
    from tfcli.interop import exporting, view
    from tfcli.runs.load import load_run

    terminal.result(exporting.export_run(load_run(run, checkpoint), out), view.exported_view, json=json)
