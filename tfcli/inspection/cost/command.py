"""``tfcli inspect cost``: operations, parameters and bytes of a forward pass."""

from typing import Annotated, Literal

import typer

from tfcli.console.options import Outputs, RunOrRecipe, Threads, command, present, section_of, use_threads
from tfcli.console.settings import SHAPE, Asked, usual
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError, shortened


@command
def cost(
    terminal: Terminal,
    outputs: Outputs,
    asked: Annotated[Asked, SHAPE],
    run: RunOrRecipe = None,
    length: Annotated[int | None, usual("the context", "Tokens N of a sequence.", min=1, max=1 << 20)] = None,
    batch: Annotated[int, typer.Option(min=1, max=1 << 16, help="Sequences in a batch.")] = 1,
    heads: Annotated[str | None, typer.Option(metavar="K,…", help="Measure one attention cut into K heads.")] = None,
    against: Annotated[Literal["dense", "rnn"] | None, typer.Option(help="Compare attention with this layer.")] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Also measure each length, on random weights.")] = False,
    threads: Threads = 0,
) -> None:
    """Count what a forward pass costs, part by part, over the number of tokens N.

    Every matrix product of the explicit path, every parameter, the bytes that are
    made and kept; from which N on O(N²D) exceeds O(ND²); what a mask would save.
    Nothing is estimated: PyTorch's own counter is asked, too.

    Examples:

      tfcli inspect cost --preset gpt2
      tfcli inspect cost runs/decoder-1 --measure
      tfcli inspect cost --size tiny --heads 1,2,4,8 --length 64
      tfcli inspect cost --against rnn
    """
    given = [option for option, value in (("--heads", heads), ("--against", against), ("--measure", measure)) if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} are two pictures", "give one of the two")
    if against and (length is not None or batch != 1):
        raise UsageError("--against shows one sequence of several lengths", "leave --length and --batch out")
    parts = [] if heads is None else [part.strip() for part in heads.split(",")]
    if not all(part.isdecimal() and len(part) < 19 and int(part) for part in parts):
        raise UsageError(f"--heads {shortened(str(heads))!r} is no list of numbers", "write it as 1,2,4,8")
    use_threads(threads)
    from tfcli.inspection.cost import compute, view

    section = section_of(terminal, run, asked, vocabulary=not (parts or against))
    if against:
        beside = compute.cost_against(section, against)
        present(terminal, outputs, view.AgainstView(beside), beside, view.against_table)
    elif parts:
        cut = compute.heads_cost(section, list(map(int, parts)), length or section.max_seq_len, batch)
        present(terminal, outputs, view.HeadsView(cut), cut, view.heads_table)
    else:
        if measure:
            with terminal.progress() as tell:
                record = compute.measured_cost(section, length, batch, tell)
        else:
            record = compute.model_cost(section, length, batch)
        present(terminal, outputs, view.CostView(record), record, view.cost_table)
