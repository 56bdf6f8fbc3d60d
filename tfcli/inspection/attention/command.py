"""``tfcli inspect attention``: which tokens look at which; its options in the panels of its help."""

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tfcli.console.options import HEAD_HELP, LAYER_HELP, Kind, Outputs, Run, Weights, argument, command, present
from tfcli.console.settings import OUTPUT
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionHeads, AttentionRecord

_what = partial(typer.Option, rich_help_panel="What")
_which = partial(typer.Option, rich_help_panel="Which head")
_against = partial(typer.Option, rich_help_panel="Against what", show_default=False)
_output = partial(typer.Option, rich_help_panel=OUTPUT)
_EVERY = "all; cross for pictures of an encoder-decoder"
_FOLLOWED = "Follow the best text of so many beams: as the target, or behind a decoder's text."
_LOOKS = "Where one word or token looks, and what is predicted behind it; WORD:2 is its second."
_PAIRS = "The weights between named words, over all layers and heads, beside chance."
_LISTED = "A list of the N strongest weights, or of the N largest differences."
_TARGET, _STOP = "Target of an encoder-decoder.", "Stop after this many tokens, with --beam."
_KIND, _MEAN = "encoder_self, decoder_self or cross.", "The mean of a layer's heads, or of all."
_ROLLOUT = "Attention rollout: every layer's mean head, multiplied through the layers."
_TEXT = "Subtract the weights on another text of as many tokens."
_CHECKPOINT = "Subtract those of another checkpoint of the run."
_EVOLUTION = "Show the head at every checkpoint that the run keeps."
_SCALE, _NPZ = "Colours of weights: from 0 to 1, or to each head's largest.", "Write all weights as a NumPy archive."
_TELLING = "all, then a telling one"
_Average = Literal["layer", "all"]
_Scale = Literal["all", "each"]


@command
def attention(
    terminal: Terminal,
    outputs: Outputs,
    *,
    run: Run,
    text: Annotated[str | None, argument(metavar="TEXT", help="The text to read; - for stdin.")] = None,
    target: Annotated[str | None, _what(metavar="TEXT", help=_TARGET, show_default="its translation")] = None,
    beam: Annotated[int | None, _what(min=1, max=1_000, help=_FOLLOWED, show_default=False)] = None,
    max_new_tokens: Annotated[int | None, _what(min=1, help=_STOP, show_default="the run's own")] = None,
    rows: Annotated[str | None, _what(metavar="A:B", help="Queries from A up to B.", show_default="all")] = None,
    columns: Annotated[str | None, _what(metavar="A:B", help="Keys from A up to B.", show_default="all")] = None,
    first: Annotated[int, _what(min=0, help="Keep the first N keys in sight, whatever is left out.")] = 0,
    query: Annotated[str | None, _what(metavar="WORD", help=_LOOKS, show_default=False)] = None,
    pairs: Annotated[str | None, _what(metavar="'A B, …'", help=_PAIRS, show_default=False)] = None,
    words: Annotated[bool, _what("--words", help="Merge the pieces of each word into one.")] = False,
    kind: Annotated[Kind | None, _which(metavar="KIND", help=_KIND, show_default=_EVERY)] = None,
    layer: Annotated[int | None, _which(min=0, help=LAYER_HELP, show_default=_TELLING)] = None,
    head: Annotated[str | None, _which(metavar="L.H", help=HEAD_HELP, show_default=_TELLING)] = None,
    average: Annotated[_Average | None, _which(metavar="layer|all", help=_MEAN, show_default=False)] = None,
    rollout: Annotated[bool, _which("--rollout", help=_ROLLOUT)] = False,
    scores: Annotated[bool, _which("--scores", help="The scores before the softmax, beside the weights.")] = False,
    top_k: Annotated[int | None, _which(min=1, help=_LISTED, show_default="no list; 8 differences")] = None,
    against_head: Annotated[str | None, _against(metavar="L.H", help="Subtract another head's weights.")] = None,
    against_text: Annotated[str | None, _against(metavar="TEXT", help=_TEXT)] = None,
    against_run: Annotated[Path | None, _against(metavar="RUN", help="Subtract another run's weights.")] = None,
    against_checkpoint: Annotated[str | None, _against(metavar="best|last|STEP", help=_CHECKPOINT)] = None,
    evolution: Annotated[bool, _against("--evolution", help=_EVOLUTION)] = False,
    scale: Annotated[_Scale, _output(metavar="all|each", help=_SCALE)] = "all",
    npz: Annotated[Path | None, _output(metavar="F", help=_NPZ, show_default=False)] = None,
    weights: Weights,
) -> None:
    """Show which tokens attend to which.

    All heads are shown as an overview, and the one that says most about the
    text as a table, unless --layer or --head chooses. `tfcli inspect heads`
    shows what each head does.

    Examples:

      tfcli inspect attention runs/decoder-1 "Tom swam to the bank"
      tfcli inspect attention runs/decoder-1 "Tom swam" --head 1.0
      tfcli inspect attention runs/pt-en-1 "o livro" --kind cross --html page.html
      tfcli inspect attention runs/decoder-1 "Tom" --beam 5 --max-new-tokens 8
      tfcli inspect attention runs/decoder-1 "Tom swam" --scores --head 1.0
      tfcli inspect attention runs/encoder-1 "Tom swam" --rollout
      tfcli inspect attention runs/decoder-1 "Tom swam" --words --query swam
      tfcli inspect attention runs/decoder-1 "Tom swam" --pairs "Tom swam"
      tfcli inspect attention runs/decoder-1 "Tom swam" --rows -4: --top-k 9
      tfcli inspect attention runs/decoder-1 "Tom" --head 0.0 --against-head 0.1
      tfcli inspect attention runs/decoder-1 "Tom ran" --against-text "Tom sat"
    """
    typed = dict(locals())
    from tfcli.console.stdin import read_text
    from tfcli.inspection.attention.choice import AttentionChoice
    from tfcli.outputs import require_output

    if npz is not None:
        require_output(npz, "--npz")
    choice = AttentionChoice(**{field.name: typed[field.name] for field in fields(AttentionChoice)})
    if npz is not None and (choice.compared or evolution or pairs):
        raise UsageError("--npz writes one text's weights as they are", "leave --npz or the other one out")
    if text is None:
        raise UsageError("There is no TEXT to read", "give one, or - for stdin")
    text = read_text(text)
    choice.require_another(run, text, weights.checkpoint)
    loaded = weights.load(run)
    from tfcli.inspection.attention.compute import inspect_attention, strongest_edges
    from tfcli.inspection.attention.view import MOST_NUMBERS, AttentionForms

    found = inspect_attention(loaded, text, choice if npz is None else replace(choice, top_k=None), weights.checkpoint)
    listed = None
    if npz is not None and isinstance(found, AttentionHeads):
        listed = _write_npz(npz, found.records)
        if top_k is not None:
            found = strongest_edges(found.records[-1], top_k)
    forms = AttentionForms(found, first, scale)
    as_json = AttentionForms.json if listed is None else lambda forms: listed
    numbers = sum(record.weights.size for record in found.narrowed()) if isinstance(found, AttentionHeads) else 0
    wanted = {"JSON": outputs.json and npz is None, "CSV": outputs.csv, "a page": outputs.html is not None}
    if numbers > MOST_NUMBERS and (form := next(filter(wanted.get, wanted), None)):
        problem = f"{numbers:,} weights are too many for {form} (at most {MOST_NUMBERS:,})"
        raise UsageError(problem, "choose --head, or --rows and --columns, or write them with --npz FILE")
    present(terminal, outputs, forms.view(), forms, AttentionForms.table, json=as_json, svg=forms.svg, html=forms.html)


def _write_npz(path: Path, records: tuple[AttentionRecord, ...]) -> dict[str, Any]:
    """Write weights, tokens and, where they are kept, scores, each as `<kind>.<name>`. Returns what JSON says."""
    import numpy as np

    from tfcli.outputs import writing

    kept = ("weights", "query_tokens", "next_tokens", "key_tokens", "scores")
    there = {f"{record.kind}.{name}": getattr(record, name) for record in records for name in kept}
    arrays: dict[str, Any] = {name: np.asarray(one) for name, one in there.items() if one is not None and len(one)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path, "--npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    named = [{"kind": one.kind, "query_tokens": one.query_tokens, "key_tokens": one.key_tokens} for one in records]
    return {"records": named, "npz": str(path)}
