"""``tfcli inspect attention``: which tokens look at which."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.cli.inspect import attention_options as options
from tfcli.cli.options import Checkpoint, Device, Outputs, Run, Threads, command, open_run, use_threads
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.records.attention import AttentionFound, AttentionRecord


@command
def attention(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default=False)
    ] = None,
    target: options.Target = None,
    beam: options.Beam = None,
    max_new_tokens: options.MaxNewTokens = None,
    rows: options.Rows = None,
    columns: options.KeyColumns = None,
    first: options.First = 0,
    query: options.Query = None,
    words: options.Words = False,
    kind: options.OfKind = None,
    layer: options.Layer = None,
    head: options.Head = None,
    average: options.Average = None,
    rollout: options.Rollout = False,
    scores: options.Scores = False,
    top_k: options.TopK = None,
    against_head: options.AgainstHead = None,
    against_text: options.AgainstText = None,
    against_run: options.AgainstRun = None,
    against_checkpoint: options.AgainstCheckpoint = None,
    evolution: options.Evolution = False,
    scale: options.ColorScale = "all",
    npz: options.Npz = None,
    find: Annotated[Literal["bank", "alignment"] | None, typer.Option("--find", hidden=True)] = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Show which tokens attend to which.

    All heads are shown as an overview, and the one that says most about the
    text as a table, unless --layer or --head chooses.

    Examples:

      tfcli inspect attention runs/decoder-1 "Tom swam to the bank"
      tfcli inspect attention runs/decoder-1 "Tom swam" --layer 1 --head 0
      tfcli inspect attention runs/pt-en-1 "o livro" --kind cross --html page.html
      tfcli inspect attention runs/decoder-1 "Tom" --beam 5 --max-new-tokens 8
      tfcli inspect attention runs/decoder-1 "Tom swam" --scores --head 0
      tfcli inspect attention runs/encoder-1 "Tom swam" --rollout
      tfcli inspect attention runs/decoder-1 "Tom swam" --words --query swam
      tfcli inspect attention runs/decoder-1 "Tom swam" --rows -4: --top-k 9
      tfcli inspect attention runs/decoder-1 "Tom" --head 0 --against-head 0.1
      tfcli inspect attention runs/decoder-1 "Tom ran" --against-text "Tom sat"
    """
    from tfcli.cli.stdin import read_text
    from tfcli.errors import UsageError
    from tfcli.inspection.attention.choice import AttentionChoice
    from tfcli.outputs import require_output

    if find is not None:
        typed = {"--layer": layer, "--head": None if layer is None else head, "--checkpoint": checkpoint}
        _moved(run, find, terminal, outputs, {**typed, "--device": device, "--threads": threads})
    use_threads(threads)
    if npz is not None:
        require_output(npz, "--npz")
    choice = AttentionChoice(
        target=target,
        beam=beam,
        max_new_tokens=max_new_tokens,
        rows=rows,
        columns=columns,
        first=first,
        query=query,
        words=words,
        kind=kind,
        layer=layer,
        head=head,
        average=average,
        rollout=rollout,
        scores=scores,
        top_k=top_k,
        against_head=against_head,
        against_text=against_text,
        against_run=against_run,
        against_checkpoint=against_checkpoint,
        evolution=evolution,
    )
    if npz is not None and (choice.compared or evolution):
        raise UsageError("--npz writes one text's weights as they are", "leave --npz or the comparison out")
    if text is None:
        raise UsageError("There is no TEXT to read", "give one, or - for stdin")
    text = read_text(text)
    choice.require_another(run, text, checkpoint)
    loaded = open_run(run, checkpoint, device)
    from tfcli.inspection.attention.attention import inspect_attention
    from tfcli.inspection.attention.edges import strongest_edges
    from tfcli.records.attention import AttentionHeads
    from tfcli.render.attention.forms import AttentionForms

    found = inspect_attention(loaded, text, choice if npz is None else replace(choice, top_k=None), checkpoint)
    listed = None
    if npz is not None and isinstance(found, AttentionHeads):
        records = found.records
        listed = _write_npz(npz, records)
        if top_k is not None:
            found = strongest_edges(records[-1], *records[-1].focus, top_k)
    forms = AttentionForms(found, first, scale)
    if top_k is None:
        _require_few(
            found, {"JSON": outputs.json and npz is None, "CSV": outputs.csv, "a page": outputs.html is not None}
        )
    as_json = AttentionForms.json if listed is None else lambda forms: listed
    present(terminal, outputs, forms.view(), forms, AttentionForms.table, json=as_json, svg=forms.svg, html=forms.html)


def _moved(run: Path, find: str, terminal: Terminal, outputs: Outputs, typed: dict[str, object]) -> None:
    """Refuse --find, which was an option of this command, with the command that has it.

    Raises:
        UsageError: always.
    """
    from tfcli.errors import UsageError

    defaults = {"--checkpoint": "best", "--device": "auto", "--threads": 0, "--color": "auto"}
    typed |= {"--csv": outputs.csv, "--svg": outputs.svg, "--html": outputs.html, "--json": outputs.json}
    typed |= {"--color": terminal.color, "--quiet": terminal.quiet, "--verbose": terminal.verbose}
    words = [str(run), "--find", find]
    for option, value in typed.items():
        if value is not None and value is not False and value != defaults.get(option):
            words += [option] if value is True else [option, str(value)]
    raise UsageError("--find is an option of inspect heads", f"write `tfcli inspect heads {shlex.join(words)}`")


def _require_few(found: "AttentionFound", forms: dict[str, bool]) -> None:
    """Refuse to print more numbers than anything could read.

    Raises:
        UsageError: naming the count and the limit.
    """
    from tfcli.errors import UsageError
    from tfcli.records.attention import AttentionHeads
    from tfcli.render.attention.forms import MOST_NUMBERS

    numbers = sum(record.weights.size for record in found.narrowed()) if isinstance(found, AttentionHeads) else 0
    for form in [form for form, is_wanted in forms.items() if is_wanted and numbers > MOST_NUMBERS]:
        raise UsageError(
            f"{numbers:,} weights are too many for {form} (at most {MOST_NUMBERS:,})",
            "choose --layer and --head, or --rows and --columns, or write them with --npz FILE",
        )


def _write_npz(path: Path, records: "tuple[AttentionRecord, ...]") -> dict[str, Any]:
    """Arrays named `<kind>.weights`, `<kind>.query_tokens` and `<kind>.key_tokens`, and `<kind>.scores`, if kept.

    Returns what JSON says of them.
    """
    import numpy as np

    from tfcli.outputs import writing

    arrays: dict[str, Any] = {}
    for record in records:
        arrays[f"{record.kind}.weights"] = record.weights
        arrays[f"{record.kind}.query_tokens"] = np.array(record.query_tokens)
        arrays[f"{record.kind}.key_tokens"] = np.array(record.key_tokens)
        if record.scores is not None:
            arrays[f"{record.kind}.scores"] = record.scores
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path, "--npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    named = [{"kind": one.kind, "query_tokens": one.query_tokens, "key_tokens": one.key_tokens} for one in records]
    return {"records": named, "npz": str(path)}
