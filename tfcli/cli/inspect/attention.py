"""``tfcli inspect attention``: which tokens look at which."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcli.cli.inspect import attention_options as options
from tfcli.cli.inspect.attention_options import Choice
from tfcli.cli.inspect.find import Find, FindText, require_alone, require_text, show_found
from tfcli.cli.inspect.text_options import Words
from tfcli.cli.options import Checkpoint, Device, Outputs, Run, Target, Threads, command, open_run, use_threads
from tfcli.cli.pictures import present
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.inspection.attention.comparison import Read
    from tfcli.inspection.reading import Inputs
    from tfcli.records.attention import AttentionRecord
    from tfcli.render.attention.forms import Forms
    from tfcli.runs.load import LoadedRun


@command
def attention(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: FindText = None,
    target: Target = None,
    beam: options.Beam = None,
    max_new_tokens: options.MaxNewTokens = None,
    kind: options.OfKind = None,
    layer: options.Layer = None,
    head: options.Head = None,
    average: options.Average = None,
    rollout: options.Rollout = False,
    scores: options.Scores = False,
    top_k: options.TopK = None,
    rows: options.Rows = None,
    columns: options.KeyColumns = None,
    first: options.First = 0,
    query: options.Query = None,
    words: Words = False,
    against_head: options.AgainstHead = None,
    against_text: options.AgainstText = None,
    against_run: options.AgainstRun = None,
    against_checkpoint: options.AgainstCheckpoint = None,
    evolution: options.Evolution = False,
    find: Find = None,
    npz: options.Npz = None,
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
      tfcli inspect attention runs/pt-en-1 --find alignment
    """
    from tfcli.cli.stdin import read_text as read_argument
    from tfcli.errors import UsageError
    from tfcli.inspection.attention.weights import attention_on
    from tfcli.inspection.kinds import chosen_kinds
    from tfcli.inspection.reading import read_text
    from tfcli.outputs import require_output

    use_threads(threads)
    if max_new_tokens is not None and beam is None:
        raise UsageError("--max-new-tokens is for the text that --beam finds", "add --beam N, or leave it out")
    if npz is not None:
        require_output(npz, "--npz")
    choice = Choice(
        layer=layer,
        head=head,
        average=average,
        rollout=rollout,
        scores=scores,
        top_k=top_k,
        rows=rows,
        columns=columns,
        first=first,
        against_head=against_head,
        against_text=against_text,
        against_run=against_run,
        against_checkpoint=against_checkpoint,
        evolution=evolution,
        words=words,
        query=query,
    )
    if npz is not None and (choice.compared or evolution):
        raise UsageError("--npz writes one text's weights as they are", "leave --npz or the comparison out")
    if find is not None:
        beside: dict[str, object] = {"TEXT": text, "--target": target, "--beam": beam, "--kind": kind, "--npz": npz}
        require_alone(choice, beside)
        show_found(terminal, open_run(run, checkpoint, device), find, outputs)
        return
    text = read_argument(require_text(text))
    _require_another(run, text, choice, checkpoint)
    loaded = open_run(run, checkpoint, device)
    chosen_kinds(loaded, kind)  # refused before anything is translated

    def read(run: "LoadedRun", text: str) -> "Inputs":
        return read_text(run, text, target, beam=beam, max_new_tokens=max_new_tokens)

    inputs = read(loaded, text)
    records = attention_on(loaded, inputs, kind)
    if kind is None and rollout:
        records = [record for record in records if record.kind != "cross"]
    if choice.compared or evolution:
        shown = _compared(loaded, text, read, inputs, records[-1], choice, checkpoint)
    else:
        shown = _shown(outputs, npz, records, choice, loaded, inputs)
    as_json, table = (lambda shown: shown.json()), (lambda shown: shown.table())
    present(terminal, outputs, shown.view, shown, table, json=as_json, svg=shown.svg, html=shown.html)


def _require_another(run: Path, text: str, choice: Choice, checkpoint: str) -> None:
    """Refuse to compare a text, a run or its weights with themselves."""
    from tfcli.errors import UsageError

    for option, is_same in (
        ("--against-text", choice.against_text == text),
        (
            "--against-run",
            choice.against_run is not None and choice.against_run.resolve() == run.resolve() and checkpoint == "best",
        ),
        ("--against-checkpoint", choice.against_checkpoint == checkpoint),
    ):
        if is_same:
            raise UsageError(f"{option} names what it is compared with, and all differences are 0", "name another one")


def _shown(
    outputs: Outputs,
    npz: Path | None,
    records: "list[AttentionRecord]",
    choice: Choice,
    run: "LoadedRun",
    inputs: "Inputs",
) -> "Forms":
    from dataclasses import replace

    from tfcli.cli.inspect.attention_showing import require_few, shown_heads, shown_row

    whole = records[-1]
    if (choice.rows, choice.columns, choice.query) != (None, None, None):
        records = [whole]  # the sides of an encoder-decoder are of different lengths
    records = [choice.of(record) for record in records]
    forms = {"JSON": outputs.json and npz is None, "CSV": outputs.csv, "a page": outputs.html is not None}
    for form in [form for form, wanted in forms.items() if wanted and choice.top_k is None]:
        require_few(records, choice, form)
    one_row = choice.query is not None
    shown = shown_row(run, inputs, whole, records[0], choice) if one_row else shown_heads(records, choice)
    if npz is None:
        return shown
    npz.parent.mkdir(parents=True, exist_ok=True)
    _write_npz(npz, records)
    named = [{"kind": r.kind, "query_tokens": r.query_tokens, "key_tokens": r.key_tokens} for r in records]
    return replace(shown, json=lambda: {"records": named, "npz": str(npz)})


def _compared(
    run: "LoadedRun",
    text: str,
    read: "Read",
    inputs: "Inputs",
    record: "AttentionRecord",
    choice: Choice,
    checkpoint: str,
) -> "Forms":
    """A head against what the options name; of an encoder-decoder without --kind, its cross-attention."""
    from tfcli.errors import UsageError
    from tfcli.inspection.attention.comparison import against_head, against_run, against_text
    from tfcli.inspection.attention.difference import LARGEST
    from tfcli.inspection.attention.evolution import evolution
    from tfcli.render.attention.forms import difference_forms, evolution_forms
    from tfcli.runs.load import load_run

    largest = choice.top_k or LARGEST
    if choice.evolution:
        return evolution_forms(evolution(run, inputs, record.kind, choice.layer, choice.head, words=choice.words))
    if choice.against_head is not None:
        ours, place = choice.of(record), options.place(choice.against_head)
        if place == ours.focus:
            raise UsageError(
                f"--against-head {choice.against_head} names the head that is shown",
                "name another one, or choose what is shown with --layer and --head",
            )
        found = against_head(ours, place, largest)
    elif choice.against_text is not None:
        found = against_text(run, record, (text, choice.against_text), read, choice.of, largest)
    elif choice.against_run is not None:
        other = load_run(choice.against_run, device=run.device)
        names = (str(run.directory.path), str(choice.against_run))
        found = against_run(run, other, inputs, record, names, text, read, choice.of, largest)
    else:
        assert choice.against_checkpoint is not None
        other = load_run(run.directory.path, choice.against_checkpoint, run.device)
        names = (options.weights_name(checkpoint), options.weights_name(choice.against_checkpoint))
        found = against_run(run, other, inputs, record, names, text, read, choice.of, largest)
    return difference_forms(found, choice.first)


def _write_npz(path: Path, records: "list[AttentionRecord]") -> None:
    """Arrays named `<kind>.weights`, `<kind>.query_tokens` and `<kind>.key_tokens`, and `<kind>.scores`, if kept."""
    import numpy as np

    from tfcli.outputs import writing

    arrays: dict[str, Any] = {}
    for record in records:
        arrays[f"{record.kind}.weights"] = record.weights
        arrays[f"{record.kind}.query_tokens"] = np.array(record.query_tokens)
        arrays[f"{record.kind}.key_tokens"] = np.array(record.key_tokens)
        if record.scores is not None:
            arrays[f"{record.kind}.scores"] = record.scores
    with writing(path, "--npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
