"""``tfcli inspect probe``: a linear probe of position, word class or sense at every layer."""

from typing import Annotated, Any

import typer

from tfcli.console.options import Evolution, Outputs, Run, Weights, command, present
from tfcli.console.settings import usual
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError
from tfcli.inspection.probe import Task

_ON = "Texts: tagged (CoNLL) for word-class, labelled for sense, any for position."
_WORD = "The word whose sense the label of a text is."


@command
def probe(
    terminal: Terminal,
    outputs: Outputs,
    *,
    run: Run,
    task: Annotated[Task, typer.Option("--for", help="What to read out of the vectors.", show_default=False)],
    on: Annotated[list[str] | None, usual("a built-in corpus", _ON, metavar="SOURCE")] = None,
    word: Annotated[str | None, usual("bank", _WORD, metavar="WORD")] = None,
    evolution: Evolution = False,
    weights: Weights,
) -> None:
    """Show what a linear classifier reads out of every layer's vectors.

    Its accuracy on held-out texts, and what that must pass to mean anything: the
    commonest label, a control task, and the same model untrained. Of an
    encoder-decoder the encoder's vectors are read.

    Examples:

      tfcli inspect probe runs/pt-en-1 --for position
      tfcli inspect probe runs/encoder-1 --for word-class
      tfcli inspect probe runs/decoder-1 --for sense --word bank
      tfcli inspect probe runs/induction-1 --for position --evolution
    """
    from tfcli.inspection.evolution import compute as evolving
    from tfcli.inspection.evolution.view import EvolutionView, evolution_table
    from tfcli.inspection.probe import compute
    from tfcli.inspection.probe.view import ProbeView, probe_table

    if word is not None and task != "sense":
        raise UsageError("--word is the word whose sense is read", "leave it out, or choose --for sense")
    loaded = weights.load(run)
    if evolution:  # refused before probes are fitted
        evolving.kept_steps(loaded)
    with terminal.progress() as say:
        say("fitting probes")
        measure = compute.prepared(loaded, compute.labelled_places(loaded, task, on or (), word or "bank"), task)
        record: Any = evolving.evolution(loaded, measure) if evolution else measure(loaded)
    drawing, table = (EvolutionView, evolution_table) if evolution else (ProbeView, probe_table)
    present(terminal, outputs, drawing(record), record, table)
