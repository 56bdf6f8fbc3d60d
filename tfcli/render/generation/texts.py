"""Text that a model made, and what it would put into a mask."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.records.generation import Candidate, Filled, Generated
from tfcli.render.attention.words import labels
from tfcli.render.numbers import percent, plural
from tfcli.render.safe import fit, printable, widest

_EIGHTHS = " ▏▎▍▌▋▊▉"


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
            yield from _bars(candidates, options.max_width)
        yield Text(printable(filled.text, keep_newlines=True))


def _ordinal(number: int) -> str:
    """A place in an order.

    >>> _ordinal(1), _ordinal(12), _ordinal(22)
    ('1st', '12th', '22nd')
    """
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _bars(candidates: tuple[Candidate, ...], width: int) -> RenderResult:
    names = labels(tuple(candidate.token for candidate in candidates))
    name_width = min(widest(names), 24)
    room = max(4, min(40, width - name_width - 13))
    for name, candidate in zip(names, candidates, strict=True):
        yield Segment(f"  {fit(name, name_width)}  {percent(candidate.probability):>7}  ")
        yield Segment(bar(candidate.probability, room), Style(color="cyan"))
        yield Segment.line()


def bar(share: float, width: int) -> str:
    """A horizontal bar of `share` × `width` cells, to an eighth of a cell.

    >>> bar(0.5, 3)
    '█▌'
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
