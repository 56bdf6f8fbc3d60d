"""Likely tokens with bars for their probabilities: side by side in a row, or below each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderResult
from rich.text import Text

from tfcli.records.generation import Candidate
from tfcli.render.bars import bar
from tfcli.render.numbers import percent, percent_in_four
from tfcli.render.safe import fit, token_label, widest

_LEAST_LABEL, _MOST_LABEL = 6, 16
_LEAST_BAR, _MOST_BAR = 3, 10
_AROUND = 8
"""Cells of a candidate beside its label and its bar: its sign, its percentage, blanks."""
_WIDEST_BAR = 40


@dataclass(frozen=True)
class Row:
    """How candidates stand side by side: cells of a label and of a bar, and how many there are."""

    label: int
    bar: int
    count: int


def row_layout(rows: Sequence[Sequence[Candidate]], room: int) -> Row:
    """As many candidates a row as `room` cells hold, their labels cut where they must be."""
    most = max(map(len, rows), default=1)
    wanted = max((widest(tuple(token_label(one.token) for one in row)) for row in rows), default=0)
    label = max(_LEAST_LABEL, min(wanted, _MOST_LABEL, room // min(most, 3) - _LEAST_BAR - _AROUND))
    count = max(1, min(most, room // (label + _LEAST_BAR + _AROUND)))
    return Row(label, max(_LEAST_BAR, min(_MOST_BAR, room // count - label - _AROUND)), count)


def append_candidates(
    row: Text, candidates: Sequence[Candidate], answer: str | None, layout: Row, *, ascii_only: bool
) -> None:
    """Candidates at the end of a row, `answer` marked among them."""
    for one in candidates[: layout.count]:
        is_answer = one.token == answer
        row.append(f" {sign(ascii_only=ascii_only) if is_answer else ' '}")
        row.append(f"{fit(token_label(one.token), layout.label)} ", "bold" if is_answer else "")
        row.append(bar(one.probability, layout.bar, ascii_only=ascii_only).ljust(layout.bar), "cyan")
        row.append(f" {percent_in_four(one.probability)}")


def candidate_bars(
    candidates: Sequence[Candidate], answer: str | None, width: int, *, ascii_only: bool
) -> RenderResult:
    """A candidate a line."""
    names = tuple(token_label(one.token) for one in candidates)
    name_width = min(widest(names), 24)
    room = max(4, min(_WIDEST_BAR, width - name_width - 13))
    for name, one in zip(names, candidates, strict=True):
        is_answer = one.token == answer
        line = Text(f"{sign(ascii_only=ascii_only) if is_answer else ' '} ", no_wrap=True, overflow="crop")
        line.append(fit(name, name_width), "bold" if is_answer else "")
        line.append(f"  {percent(one.probability):>7}  ")
        yield line.append(bar(one.probability, room, ascii_only=ascii_only), "cyan")


def sign(*, ascii_only: bool) -> str:
    """What stands before the true token."""
    return ">" if ascii_only else "▸"
