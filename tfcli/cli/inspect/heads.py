"""``tfcli inspect heads``: which head does what."""

from typing import Annotated

import typer

from tfcli.cli.options import Checkpoint, Device, Json, Kind, Run, Target, Threads, command, open_run, use_threads
from tfcli.cli.pictures import Csv, Html, Outputs, Svg, present
from tfcli.cli.terminal import Terminal


@command
def heads(
    terminal: Terminal,
    run: Run,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]",
            help="The text to measure on; - for stdin.",
            show_default="documents of the run's built-in corpus, else random tokens",
        ),
    ] = None,
    target: Target = None,
    kind: Annotated[
        Kind | None,
        typer.Option("--kind", metavar="KIND", help="encoder_self, decoder_self or cross.", show_default="all"),
    ] = None,
    sort: Annotated[
        str,
        typer.Option("--sort", metavar="KEY", help="role, layer, or a column: entropy, induction, …; largest first."),
    ] = "role",
    csv: Csv = False,
    svg: Svg = None,
    html: Html = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Show what every attention head does.

    Each head's role in words, and the statistics behind it: shares of attention
    on the token before, the first, itself; induction and duplicate-token scores,
    which are measured on random tokens read twice; entropy and distance.

    Examples:

      tfcli inspect heads runs/decoder-1
      tfcli inspect heads runs/encoder-1 "Tom swam to the bank" --sort entropy
      tfcli inspect heads runs/pt-en-1 --kind cross --csv
    """
    from tfcli.cli.stdin import read_text
    from tfcli.errors import UsageError
    from tfcli.inspection.heads.roles import heads as compute
    from tfcli.render.as_json import to_json
    from tfcli.render.heads import SORT_KEYS, HeadsView, heads_table

    outputs = Outputs(json, csv, svg, html)
    if sort not in SORT_KEYS:
        raise UsageError(f"--sort {sort!r} is not one of {', '.join(SORT_KEYS)}", "choose one of them")
    use_threads(threads)
    text = None if text is None else read_text(text)
    record = compute(open_run(run, checkpoint, device), text, target, kind)
    view = HeadsView(record, sort)
    present(terminal, outputs, view, json=lambda: to_json(record), table=lambda: heads_table(record))
