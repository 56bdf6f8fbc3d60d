"""How a text came about, a row a step: the token, how likely it was, and what could have come instead."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.generation import Option, Trace, TraceStep
from tfcli.render.bars import bar
from tfcli.render.generation.texts import GeneratedView
from tfcli.render.numbers import percent_in_four
from tfcli.render.safe import fit, token_label, widest

_LEAST_LABEL, _MOST_LABEL = 6, 16
_LEAST_BAR, _MOST_BAR = 3, 10
_FEW = 3
"""Candidates for which labels are cut where the terminal is narrow."""
_AROUND = 9
"""Cells of a candidate beside its label and its bar: its sign, its percentage, blanks."""


@dataclass(frozen=True)
class TraceView:
    """Candidates stand in the order of their probability, as many as fit, the chosen one always among them.

    The bars show probabilities under the model itself; what penalties and filters ruled out is dim and marked.
    """

    trace: Trace
    translation: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        steps, ascii_only = self.trace.steps, options.ascii_only
        layout = _layout(steps, options.max_width)
        chosen, ruled_out = _signs(ascii_only)
        yield Text(f"step {fit('token', layout.token)}    p chance  candidates", style="bold")
        for number, step in enumerate(steps, start=1):
            yield _row(number, step, layout, ascii_only)
        yield Text(
            f"p: under the model itself   chance: in the draw   {chosen} chosen   {ruled_out} ruled out", style="dim"
        )
        yield GeneratedView(self.trace.generated, self.translation)


@dataclass(frozen=True)
class _Layout:
    """Cells: of the chosen token's label, of a candidate's label and bar; and how many candidates stand in a row."""

    token: int
    label: int
    bar: int
    count: int


def _layout(steps: tuple[TraceStep, ...], width: int) -> _Layout:
    chosen = widest(tuple(token_label(step.token) for step in steps))
    wanted = widest(tuple(token_label(option.token) for step in steps for option in step.options))
    most = max((len(step.options) for step in steps), default=1)
    token = min(max(chosen, 5), _MOST_LABEL if width >= 100 else _MOST_LABEL // 2)
    room = width - (5 + token + 5 + 7) - 1
    for_few = room // min(most, _FEW) - _LEAST_BAR - _AROUND
    label = max(_LEAST_LABEL, min(wanted, _MOST_LABEL, for_few))
    count = max(1, min(most, room // (label + _LEAST_BAR + _AROUND)))
    spare = room // count - label - _AROUND
    return _Layout(token, label, max(_LEAST_BAR, min(_MOST_BAR, spare)), count)


def _row(number: int, step: TraceStep, layout: _Layout, ascii_only: bool) -> Text:
    row = Text(no_wrap=True, overflow="crop")
    row.append(f"{number:>4} ", "dim")
    row.append(fit(token_label(step.token), layout.token), "bold")
    row.append(f" {percent_in_four(step.probability)}   {percent_in_four(step.chance)} ")
    for option in _shown(step, layout.count):
        _append(row, option, option.token_id == step.token_id, layout, ascii_only)
    return row


def _shown(step: TraceStep, count: int) -> list[Option]:
    """The likeliest, and in the last place the chosen one where it is none of them."""
    first = list(step.options[:count])
    if any(option.token_id == step.token_id for option in first):
        return first
    return [*first[: count - 1], *(option for option in step.options if option.token_id == step.token_id)]


def _append(row: Text, option: Option, is_chosen: bool, layout: _Layout, ascii_only: bool) -> None:
    chosen, ruled_out = _signs(ascii_only)
    is_out = option.chance == 0 and not is_chosen
    sign = chosen if is_chosen else ruled_out if is_out else " "
    style = "bold" if is_chosen else "dim" if is_out else ""
    row.append(f" {sign} {fit(token_label(option.token), layout.label)} ", style)
    drawn = bar(option.probability, layout.bar, ascii_only=ascii_only)
    row.append(drawn.ljust(layout.bar), "dim" if is_out else "cyan")
    row.append(f" {percent_in_four(option.probability)}", style)


def _signs(ascii_only: bool) -> tuple[str, str]:
    return (">", "x") if ascii_only else ("▸", "×")
