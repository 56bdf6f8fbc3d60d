"""``tfcli inspect``: what is inside."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.cli.options import Checkpoint, Device, Json, Run, Threads, command, require_file_place, use_threads
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.records.attention import AttentionRecord

inspect_app = typer.Typer(
    help="Look inside a model: attention, positions.", no_args_is_help=True, add_completion=False
)

_MOST_NUMBERS = 2_000_000


@inspect_app.command("attention")
@command
def attention(
    terminal: Terminal,
    run: Run,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default=False)
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="TEXT", help="Target of an encoder-decoder.", show_default="its translation"
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
        int | None, typer.Option("--layer", min=0, help="Layer, from 0.", show_default="overview and last")
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", min=0, help="Head, from 0.", show_default="overview and 0")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="F", help="Write the table as an SVG picture.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="F", help="Write a page with every head.")
    ] = None,
    npz: Annotated[
        Path | None, typer.Option("--npz", metavar="F", help="Write all weights as a NumPy archive.")
    ] = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Show which tokens attend to which.

    All heads are shown as an overview and one as a table, unless --layer or --head chooses.

    Examples:

      tfcli inspect attention runs/decoder-1 "Tom swam to the bank"
      tfcli inspect attention runs/decoder-1 "Tom swam" --layer 1 --head 0
      tfcli inspect attention runs/pt-en-1 "o livro" --kind cross --html page.html
    """
    from tfcli.cli.stdin import read_arguments
    from tfcli.files import write_text
    from tfcli.inspection.attention import attention as compute
    from tfcli.render.as_json import to_json
    from tfcli.runs.load import load_run
    from tfcli.training.precision import choose_device

    use_threads(threads)
    files = [
        (option, path)
        for option, path in (("--svg", svg), ("--html", html), ("--npz", npz))
        if path is not None
    ]
    for option, path in files:
        require_file_place(path, option)
    text = read_arguments([text], "text")[0]
    loaded = load_run(run, checkpoint, choose_device(device))
    records = compute(loaded, text, target, kind)
    for record in records:
        _require_place(record, layer, head)
    picture = records[-1]  # of an encoder-decoder, the cross-attention
    for _, path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
    if html is not None:
        from tfcli.render.attention_html import attention_html

        write_text(html, attention_html(records))
    if svg is not None:
        from tfcli.render.attention_svg import attention_svg

        write_text(svg, attention_svg(picture, *_place(picture, layer, head)))
    if npz is not None:
        _write_npz(npz, records)
    if json:
        terminal.json(
            to_json([_narrowed(record, layer, head) for record in _printable(records, layer, head, npz)])
        )
    else:
        _show(terminal, picture, layer, head)


@inspect_app.command("positions")
@command
def positions(
    terminal: Terminal,
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run, to see its own.", show_default=False)
    ] = None,
    encoding: Annotated[
        Literal["sinusoidal", "rotary", "learned"] | None,
        typer.Option("--encoding", help="A formula, without a run."),
    ] = None,
    length: Annotated[
        int | None, typer.Option("--length", min=1, help="Positions.", show_default="64, or the run's")
    ] = None,
    d_model: Annotated[
        int | None, typer.Option("--d-model", min=1, help="Dimensions.", show_default="64")
    ] = None,
    heads: Annotated[
        int | None,
        typer.Option("--heads", min=1, help="Heads that share d_model, for rotary.", show_default="1"),
    ] = None,
    base: Annotated[
        float | None, typer.Option("--base", help="Base L of the wavelengths.", show_default="10000")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV, a position a line.")] = False,
    json: Json = False,
) -> None:
    """Show a positional encoding.

    Its table is drawn as a heat map, and how alike positions are by their distance.

    Examples:

      tfcli inspect positions --encoding sinusoidal --length 64 --d-model 128
      tfcli inspect positions runs/decoder-1
    """
    from tfcli.errors import UsageError
    from tfcli.inspection.positions import positions_table, run_positions
    from tfcli.render.as_json import to_json
    from tfcli.render.positions import PositionsView
    from tfcli.runs.load import load_run

    if run is not None:
        formula = {"--encoding": encoding, "--d-model": d_model, "--heads": heads, "--base": base}
        for option, value in formula.items():
            if value is not None:
                raise UsageError(
                    f"The run {run} has its own positions", f"leave {option} out, or leave the run out"
                )
        record = run_positions(load_run(run).model, length)
    else:
        chosen, size, heads = encoding or "sinusoidal", d_model or 64, heads or 1
        if size % heads:
            raise UsageError(f"--d-model {size} is not divisible by --heads {heads}", "choose a multiple")
        record = positions_table(
            chosen, length or 64, size // heads if chosen == "rotary" else size, base or 10_000.0
        )
    if json:
        terminal.json(to_json(record))
    elif csv:
        for row in record.table:
            terminal.text(",".join(str(value) for value in row))
    else:
        terminal.show(PositionsView(record))


def _require_place(record: "AttentionRecord", layer: int | None, head: int | None) -> None:
    from tfcli.errors import UsageError

    for name, wanted, there in zip(("layer", "head"), (layer, head), record.weights.shape[:2], strict=True):
        if wanted is not None and wanted >= there:
            raise UsageError(
                f"There is no {name} {wanted}: the model has {there}", f"choose 0 to {there - 1}"
            )


def _place(record: "AttentionRecord", layer: int | None, head: int | None) -> tuple[int, int]:
    """The layer and head to draw: the last layer's first head, where none is asked for."""
    return (record.weights.shape[0] - 1 if layer is None else layer), head or 0


def _show(terminal: Terminal, record: "AttentionRecord", layer: int | None, head: int | None) -> None:
    from tfcli.render.attention import AttentionTable
    from tfcli.render.attention_overview import AttentionOverview

    if layer is None and head is None:
        terminal.show(AttentionOverview(record))
        terminal.text("")
    terminal.show(AttentionTable(record, *_place(record, layer, head)))


def _narrowed(record: "AttentionRecord", layer: int | None, head: int | None) -> "AttentionRecord":
    """The record with the asked layer and head alone; the axes stay."""
    from dataclasses import replace

    layers = slice(None) if layer is None else slice(layer, layer + 1)
    heads = slice(None) if head is None else slice(head, head + 1)
    return replace(record, weights=record.weights[layers, heads])


def _printable(
    records: "list[AttentionRecord]", layer: int | None, head: int | None, npz: Path | None
) -> "list[AttentionRecord]":
    """The records, where JSON can hold them; none, where they went into an archive."""
    from tfcli.errors import UsageError

    if npz is not None:
        return []
    numbers = sum(_narrowed(record, layer, head).weights.size for record in records)
    if numbers > _MOST_NUMBERS:
        raise UsageError(
            f"{numbers:,} weights are too many for JSON (at most {_MOST_NUMBERS:,})",
            "choose --layer and --head, or write them with --npz FILE",
        )
    return records


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
