"""``tfcli inspect attention``: which tokens look at which."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.cli.options import Checkpoint, Device, Json, Run, Threads, command, require_file_place, use_threads
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.records.attention import AttentionRecord

_MOST_NUMBERS = 2_000_000


@command
def attention(
    terminal: Terminal,
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default=False)],
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TEXT", help="Target of an encoder-decoder.", show_default="its translation"),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            "--beam",
            min=1,
            help="Follow the best text of so many beams: as the target, or behind a decoder's text.",
            show_default=False,
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-new-tokens", min=1, help="Stop after this many tokens, with --beam.", show_default="the run's own"
        ),
    ] = None,
    kind: Annotated[
        Literal["encoder_self", "decoder_self", "cross"] | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="encoder_self, decoder_self or cross.",
            show_default="all; cross for pictures of an encoder-decoder",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option("--layer", min=0, help="Layer, from 0.", show_default="all, then a telling one"),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option("--head", min=0, help="Head, from 0.", show_default="all, then a telling one"),
    ] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="F", help="Write the table as an SVG picture.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="F", help="Write a page with every head.")] = None,
    npz: Annotated[
        Path | None, typer.Option("--npz", metavar="F", help="Write all weights as a NumPy archive.")
    ] = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Show which tokens attend to which.

    All heads are shown as an overview, and the one that says most about the
    text as a table, unless --layer or --head chooses.

    Examples:

      tfcli inspect attention runs/decoder-1 "Tom swam to the bank"
      tfcli inspect attention runs/decoder-1 "Tom swam" --layer 1 --head 0
      tfcli inspect attention runs/pt-en-1 "o livro" --kind cross --html page.html
      tfcli inspect attention runs/pt-en-1 "o livro" --beam 5
      tfcli inspect attention runs/decoder-1 "Tom" --beam 5 --max-new-tokens 8
    """
    from tfcli.cli.stdin import read_text
    from tfcli.errors import UsageError
    from tfcli.files import write_text
    from tfcli.inspection.attention import attention as compute
    from tfcli.inspection.focus import focused, narrowed
    from tfcli.render.as_json import to_json
    from tfcli.runs.load import load_run
    from tfcli.training.precision import choose_device

    use_threads(threads)
    if max_new_tokens is not None and beam is None:
        raise UsageError("--max-new-tokens is for the text that --beam finds", "add --beam N, or leave it out")
    files = [(option, path) for option, path in (("--svg", svg), ("--html", html), ("--npz", npz)) if path is not None]
    for option, path in files:
        require_file_place(path, option)
    text = read_text(text)
    loaded = load_run(run, checkpoint, choose_device(device))
    found = compute(loaded, text, target, kind, beam=beam, max_new_tokens=max_new_tokens)
    records = [focused(record, layer, head) for record in found]
    picture = records[-1]  # of an encoder-decoder, the cross-attention
    chosen = [narrowed(record, layer, head) for record in records]
    if json and npz is None:
        _require_few(chosen)
    for _, path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
    if html is not None:
        from tfcli.render.attention.html import attention_html

        write_text(html, attention_html(records))
    if svg is not None:
        from tfcli.render.attention.svg import attention_svg

        write_text(svg, attention_svg(picture, *picture.focus))
    if npz is not None:
        _write_npz(npz, records)
    if not json:
        _show(terminal, picture, overview=layer is None and head is None)
    elif npz is not None:
        named = [{"kind": r.kind, "query_tokens": r.query_tokens, "key_tokens": r.key_tokens} for r in records]
        terminal.json({"records": named, "npz": str(npz)})
    else:
        terminal.json(to_json(chosen))


def _show(terminal: Terminal, record: "AttentionRecord", *, overview: bool) -> None:
    from tfcli.render.attention.overview import AttentionOverview
    from tfcli.render.attention.table import AttentionTable

    if overview:
        terminal.show(AttentionOverview(record))
        terminal.text("")
    terminal.show(AttentionTable(record, *record.focus))


def _require_few(records: "list[AttentionRecord]") -> None:
    from tfcli.errors import UsageError

    numbers = sum(record.weights.size for record in records)
    if numbers > _MOST_NUMBERS:
        raise UsageError(
            f"{numbers:,} weights are too many for JSON (at most {_MOST_NUMBERS:,})",
            "choose --layer and --head, or write them with --npz FILE",
        )


def _write_npz(path: Path, records: "list[AttentionRecord]") -> None:
    """Arrays named `<kind>.weights`, `<kind>.query_tokens` and `<kind>.key_tokens`."""
    import numpy as np

    from tfcli.files import replacing

    arrays: dict[str, Any] = {}
    for record in records:
        arrays[f"{record.kind}.weights"] = record.weights
        arrays[f"{record.kind}.query_tokens"] = np.array(record.query_tokens)
        arrays[f"{record.kind}.key_tokens"] = np.array(record.key_tokens)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
