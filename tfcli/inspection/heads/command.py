"""``tfcli inspect heads``: what every attention head does, such as an induction head; and the head that does a job."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfcli.console.options import (
    HEAD_HELP,
    LAYER_HELP,
    Evolution,
    Kind,
    Outputs,
    Run,
    Target,
    Weights,
    command,
    first_given,
    present,
)
from tfcli.console.settings import usual
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError
from tfcli.outputs import command_line

if TYPE_CHECKING:
    from tfcli.inspection.heads.find import Material
    from tfcli.runs.load import LoadedRun

_TEXT, _OWN = "The text to measure on; - for stdin.", "the run's own validation text"
_ON = "Measure on a sample of another source."
_SORT = "role, layer, or a column: entropy, induction, …; largest first."
_FIND = "Instead, the head that tells the senses of “bank” apart, or the one that aligns words."
_BUILTIN = 400  # documents, of which a run without a text of its own reads a sample


@command
def heads(
    terminal: Terminal,
    outputs: Outputs,
    *,
    run: Run,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help=_TEXT, show_default=_OWN)] = None,
    target: Target = None,
    on: Annotated[list[str] | None, typer.Option(metavar="SOURCE", help=_ON)] = None,
    kind: Annotated[Kind | None, usual("all", "encoder_self, decoder_self or cross.", metavar="KIND")] = None,
    layer: Annotated[int | None, usual("all", LAYER_HELP, min=0)] = None,
    head: Annotated[str | None, usual("all", HEAD_HELP, metavar="L.H")] = None,
    evolution: Evolution = False,
    sort: Annotated[str, typer.Option(metavar="KEY", help=_SORT)] = "role",
    find: Annotated[Literal["bank", "alignment"] | None, typer.Option(metavar="bank|alignment", help=_FIND)] = None,
    weights: Weights,
) -> None:
    """Show what every attention head does.

    Each head's role in words with its share beside chance, its best sentence,
    and figures: shares of attention, induction and duplicate-token scores, which
    are measured on random tokens read twice, entropy and distance. Measured on
    the run's own validation text; an imported run has none. --find chooses the
    head that does one job best on training text, and measures it on other text.

    Examples:

      tfcli inspect heads runs/decoder-1
      tfcli inspect heads runs/decoder-1 --head 0.1
      tfcli inspect heads runs/imported --on mytext.txt
      tfcli inspect heads runs/encoder-1 "Tom swam to the bank" --sort entropy
      tfcli inspect heads runs/pt-en-1 --kind cross --csv
      tfcli inspect heads runs/induction-1 --evolution --sort induction
      tfcli inspect heads runs/pt-en-1 --find alignment
      tfcli inspect heads runs/pt-en-1 --find alignment --layer 1
    """
    from tfcli.inspection.heads import AlignmentFound, view
    from tfcli.inspection.heads.find import find_alignment, find_bank, given
    from tfcli.inspection.heads.roles import heads as compute
    from tfcli.inspection.passes import place_in_run
    from tfcli.records.heads import read_head

    if sort not in view.SORT_KEYS:
        raise UsageError(f"--sort {sort!r} is not one of {', '.join(view.SORT_KEYS)}", "choose one of them")
    typed_place = read_head(layer, head)
    if find is not None:
        beside = {"TEXT": text, "--target": target, "--on": on, "--kind": kind, "--evolution": evolution or None}
        if other := first_given({**beside, "--sort": None if sort == "role" else sort}):
            raise UsageError("--find chooses its texts itself", f"leave {other} or --find out")
        loaded = weights.load(run)
        search = find_bank if find == "bank" else find_alignment
        found = search(loaded, place=place_in_run(loaded, None, typed_place))
        drawing = view.AlignmentView(found) if isinstance(found, AlignmentFound) else view.BankView(found)
        present(terminal, outputs, drawing, found, view.found_table)
        return
    if text is not None and on:
        raise UsageError("A TEXT and --on are two things to measure on", "leave one of them out")
    if target is not None and text is None:
        raise UsageError("--target belongs to a TEXT", "give both, or leave both out")
    text = None if text is None else read_text(text)
    loaded = weights.load(run)
    place = place_in_run(loaded, kind, typed_place)  # refused before any text is read
    material = sample(terminal, loaded, tuple(on or ())) if text is None else given(loaded, text, target)
    if evolution:
        from tfcli.inspection.evolution.compute import at_checkpoints, heads_evolution
        from tfcli.inspection.evolution.view import EvolutionView, evolution_table

        column = view.followed(sort, cross=kind == "cross")
        records = at_checkpoints(loaded, lambda run: compute(run, material, kind, place))
        what = f"{column.key}: {column.meaning}"
        figure = partial(view.value_of, column=column)
        evolved = heads_evolution(loaded, records, what, column.role, figure)
        present(terminal, outputs, EvolutionView(evolved), evolved, evolution_table)
        return
    record = compute(loaded, material, kind, place)
    present(terminal, outputs, view.HeadsView(record, sort), record, view.heads_table)
    if not outputs.json and not outputs.csv:
        chosen = [] if weights.checkpoint == "best" else ["--checkpoint", weights.checkpoint]
        for line in ("", *view.commands(record, chosen)):
            terminal.message(line)


def sample(terminal: Terminal, run: "LoadedRun", names: tuple[str, ...]) -> "Material":
    """Of the sources that are named, else of the run's own validation text, else of the built-in one."""
    from tfcli.addresses import AddressNeeded
    from tfcli.corpora.open import DEFAULT
    from tfcli.inspection.heads.find import sampled
    from tfcli.pipeline.datasets import dataset_for_evaluation, dataset_of_run, kind_of

    with terminal.progress() as say:
        say("looking for its text")
        if names:
            return sampled(run, dataset_for_evaluation(run, names, lambda event: None), ", ".join(names))
        try:
            data = dataset_of_run(run.directory, run.recipe, lambda event: None)
            return sampled(run, data, f"the validation part of {', '.join(data.manifest.sources)}")
        except AddressNeeded as error:
            raise error.with_details(command=_with_sources(error.names)) from error
        except UsageError as error:
            name = DEFAULT[kind_of(run.recipe)]
            terminal.note(f"{error.problem}: measured on {name}; --on SOURCE measures on your own")
        return sampled(run, dataset_for_evaluation(run, (name,), lambda event: None, _BUILTIN), name)


def _with_sources(names: Sequence[str]) -> list[str]:
    """The command that was typed, with other text to measure on; in a notebook, its option alone."""
    options = [word for name in names for word in ("--on", name)]
    return ["tfcli", *command_line, *options] if command_line else options
