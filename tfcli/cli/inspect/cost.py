"""``tfcli inspect cost``: operations, parameters and bytes of a forward pass."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfcli.cli.inspect.subject import RunOrRecipe, section_of
from tfcli.cli.options import Outputs, Threads, command, use_threads
from tfcli.cli.pictures import present
from tfcli.cli.settings import SHAPE, Asked
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.recipe.model import ModelSection


@command
def cost(
    terminal: Terminal,
    outputs: Outputs,
    asked: Annotated[Asked, SHAPE],
    run: RunOrRecipe = None,
    length: Annotated[
        int | None,
        typer.Option("--length", min=1, max=1 << 20, help="Tokens N of a sequence.", show_default="the context"),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, max=1 << 16, help="Sequences at once.")] = 1,
    heads: Annotated[
        str | None,
        typer.Option("--heads", metavar="K,…", help="One attention cut into so many heads, as 1,2,4,8, measured."),
    ] = None,
    against: Annotated[
        Literal["dense", "rnn"] | None,
        typer.Option("--against", help="One attention beside a fully connected or a recurrent layer."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the time of every length, too, with random weights.")
    ] = False,
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
    from tfcli.errors import UsageError

    other = {"--heads": heads, "--against": against, "--measure": measure}
    given = [option for option, value in other.items() if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} are two pictures", "give one of the two")
    if against and (length is not None or batch != 1):
        raise UsageError("--against shows one sequence of several lengths", "leave --length and --batch out")
    numbers = _numbers(heads) if heads is not None else []
    use_threads(threads)
    section = section_of(terminal, run, asked, vocabulary=not (numbers or against))
    if against:
        from tfcli.inspection.cost.against import cost_against
        from tfcli.render.cost.against import AgainstView, against_table

        beside = cost_against(section, against)
        present(terminal, outputs, AgainstView(beside), beside, against_table)
    elif numbers:
        from tfcli.inspection.cost.heads import heads_cost
        from tfcli.inspection.cost.measured import require_memory
        from tfcli.render.cost.heads import HeadsView, heads_table

        _require_divisors(numbers, section.d_model)
        tokens = length or section.max_seq_len
        require_memory("--heads", tokens, batch, max(numbers) * tokens)
        cut = heads_cost(section, numbers, tokens, batch)
        present(terminal, outputs, HeadsView(cut), cut, heads_table)
    else:
        _show_cost(terminal, outputs, section, length, batch, measure)


def _show_cost(
    terminal: Terminal, outputs: Outputs, section: "ModelSection", length: int | None, batch: int, measure: bool
) -> None:
    from tfcli.inspection.cost.measured import measured_cost
    from tfcli.inspection.cost.model_cost import model_cost
    from tfcli.render.as_json import to_json
    from tfcli.render.cost.model_cost import CostView, cost_table

    if measure:
        with terminal.progress() as tell:
            record = measured_cost(section, length, batch, tell=tell)
    else:
        record = model_cost(section, length, batch)
    more = {"flops": record.flops, "crossover": record.crossover}
    present(terminal, outputs, CostView(record), record, cost_table, json=lambda record: to_json(record) | more)


def _require_divisors(numbers: list[int], d_model: int) -> None:
    from tfcli.errors import UsageError

    for number in numbers:
        if d_model % number:
            raise UsageError(f"--heads {number} does not divide d_model = {d_model}", "choose divisors of it")


def _numbers(text: str) -> list[int]:
    """Numbers of heads, as "1,2,4,8".

    Raises:
        UsageError: something else stands there.
    """
    from tfcli.errors import UsageError, shortened

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 19 and int(part) for part in parts):
        raise UsageError(f"--heads {shortened(text)!r} is no list of numbers", "write it as 1,2,4,8")
    return [int(part) for part in parts]
