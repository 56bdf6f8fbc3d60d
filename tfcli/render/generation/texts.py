"""Text that a model made, and what it would put into a mask."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.generation import Filled, Generated
from tfcli.render.numbers import plural
from tfcli.render.predictions.candidates import candidate_bars
from tfcli.render.safe import printable


@dataclass(frozen=True)
class GeneratedView:
    """The prompt, the continuation, and how likely it was; a translation stands under its source."""

    generated: Generated
    translation: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        made = self.generated
        between = "\n→ " if self.translation else ""
        yield Text.assemble(
            (printable(made.prompt, keep_newlines=True), "dim"),
            between,
            printable(made.text, keep_newlines=True),
        )
        count = len(made.token_ids)
        each = f", {made.score / count:.2f} a token" if count else ""
        yield Text(f"{plural(count, 'token')}, log-probability {made.score:.2f}{each}", style="dim")


@dataclass(frozen=True)
class FilledView:
    """Every mask's candidates with bars for their probabilities, then the text with the best of each.

    Where masks were filled one after the other, each says when, and its candidates are those of its turn.
    """

    filled: Filled

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        filled = self.filled
        yield Text(printable(filled.prompt, keep_newlines=True), style="dim")
        for number, candidates in enumerate(filled.predictions, start=1):
            turn = "" if filled.order is None else f", filled {_ordinal(filled.order[number - 1] + 1)}"
            yield Text(f"mask {number} of {len(filled.predictions)}{turn}", style="bold")
            yield from candidate_bars(candidates, None, options.max_width, ascii_only=options.ascii_only)
        yield Text(printable(filled.text, keep_newlines=True))


def _ordinal(number: int) -> str:
    """A place in an order.

    >>> _ordinal(1), _ordinal(12), _ordinal(22)
    ('1st', '12th', '22nd')
    """
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
