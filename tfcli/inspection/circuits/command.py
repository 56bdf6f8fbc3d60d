"""``tfcli inspect circuits``: QK and OV circuits of heads, their composition, and what a neuron is most active on."""

from typing import Annotated

import typer

from tfcli.console.options import Kind, Outputs, Run, Weights, command, present
from tfcli.console.settings import usual
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError
from tfcli.inspection.heads.command import sample

_TOKENS = typer.Argument(metavar="[TOKEN]", help="Tokens, with --head.", show_default="of the longest embeddings")
_HEAD = "One head as LAYER.HEAD, both from 0, such as 1.0."
_ON = usual("the run's own validation text", "Texts for --neuron from another source.", metavar="SOURCE")


@command
def circuits(
    terminal: Terminal,
    outputs: Outputs,
    *,
    run: Run,
    tokens: Annotated[list[str] | None, _TOKENS] = None,
    head: Annotated[str | None, usual("all", _HEAD, metavar="L.H")] = None,
    kind: Annotated[Kind | None, usual("all", "encoder_self, decoder_self or cross.", metavar="KIND")] = None,
    neuron: Annotated[str | None, usual("none", "One neuron: layer and number, from 0.", metavar="L.N")] = None,
    on: Annotated[list[str] | None, _ON] = None,
    weights: Weights,
) -> None:
    """Show what heads and neurons do, by their weights.

    The ranks of each head's QK and OV circuits, whether it copies what it attends
    to, and which heads read each other (composition), beside random matrices.
    --head: which tokens seek which through the embeddings, and what is written
    then. --neuron: the texts on which it is most active, and what it writes.

    Examples:

      tfcli inspect circuits runs/induction-1
      tfcli inspect circuits runs/decoder-1 --head 1.0 a e
      tfcli inspect circuits runs/pt-en-1 --kind cross
      tfcli inspect circuits runs/decoder-1 --neuron 1.7
    """
    from tfcli.inspection.circuits import compute, view
    from tfcli.inspection.passes import chosen_kinds, place_in_run
    from tfcli.records.heads import parse_place, read_head

    if (neuron and (head or tokens)) or (on and not neuron):
        raise UsageError("--neuron reads texts, --on names them, and --head reads tokens", "leave one of these out")
    typed_place = read_head(None, head)
    neuron_place = None if neuron is None else parse_place(neuron, "--neuron", "neuron")
    loaded = weights.load(run)
    place = place_in_run(loaded, chosen_kinds(loaded, kind)[-1], typed_place)
    head_place = None if place is None or place[1] is None else (place[0], place[1])
    material = sample(terminal, loaded, tuple(on or ())) if neuron else None
    record = compute.circuits(
        loaded, *(tokens or ()), head=head_place, neuron=neuron_place, kind=kind, material=material
    )
    present(terminal, outputs, view.CircuitsView(record), record, view.circuits_table)
