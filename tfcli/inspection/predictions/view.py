"""Predictions: every position as a row, and one with its candidates as bars."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import percent, percent_in_four, short
from tfcli.draw.safe import fit, token_label, widest
from tfcli.draw.tables import CsvTable, bar, dim, heading
from tfcli.inspection.predictions import Prediction, Predictions
from tfcli.records.generation import Candidate, Option

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


def row_layout(rows: Sequence[Sequence[Candidate | Option]], room: int, around: int = _AROUND) -> Row:
    """As many candidates a row as `room` cells hold, their labels cut where they must be."""
    most = max(map(len, rows), default=1)
    wanted = max((widest(tuple(token_label(one.token) for one in row)) for row in rows), default=0)
    label = max(_LEAST_LABEL, min(wanted, _MOST_LABEL, room // min(most, 3) - _LEAST_BAR - around))
    count = max(1, min(most, room // (label + _LEAST_BAR + around)))
    return Row(label, max(_LEAST_BAR, min(_MOST_BAR, room // count - label - around)), count)


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


_TITLES = {
    "next": "Predictions · the next token after every position",
    "masked": "Predictions · the token that belongs at every position",
}
_FIXED = 4 + 6 + 5 + 5  # position, rank, p, H


class PredictionsView(View[Predictions]):
    """A row a position: what is read, what comes next with its rank and probability, and the likeliest tokens."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, ascii_only = self.record, options.ascii_only
        mark = sign(ascii_only=ascii_only)
        tokens = _token_width(record, options.max_width)
        room = options.max_width - _FIXED - 2 * (tokens + 1) - 1
        layout = row_layout([one.candidates for one in record.predictions], room)
        yield Text(_TITLES[record.kind], style="bold")
        answer = "next" if record.kind == "next" else "true"
        yield Text(f"  # {fit('read', tokens)} {fit(answer, tokens)}  rank    p    H  likeliest", style="bold dim")
        for one in record.predictions:
            yield _row(one, tokens, layout, is_chosen=one.position == record.position, ascii_only=ascii_only)
        yield from dim(
            f"p: probability of the {answer} token, by the softmax of the logits; rank 1: it is the likeliest; {mark} "
            "where it stands. H: entropy in nats; e^H equally likely tokens would be as uncertain."
        )
        if ranks := [one.rank for one in record.predictions if one.rank is not None]:
            yield from dim(f"The {answer} token is the likeliest at {ranks.count(1)} of {len(ranks)} positions.")
        chosen = record.predictions[record.position]
        yield from heading(f"\n{_heading(record, chosen)}")
        yield from candidate_bars(chosen.candidates, chosen.answer, options.max_width, ascii_only=ascii_only)


def _row(one: Prediction, tokens: int, layout: Row, *, is_chosen: bool, ascii_only: bool) -> Text:
    row = Text(no_wrap=True, overflow="crop")
    row.append(f"{one.position:>3} ", "bold" if is_chosen else "dim")
    row.append(fit(token_label(one.read), tokens) + " ", "bold" if is_chosen else "")
    unknown = "-" if ascii_only else "–"
    row.append(fit(unknown if one.answer is None else token_label(one.answer), tokens))
    row.append(f" {unknown if one.rank is None else _rank(one.rank):>5}")
    row.append(f" {unknown if one.probability is None else percent_in_four(one.probability):>4}")
    row.append(f" {one.entropy:4.1f}  ")
    append_candidates(row, one.candidates, one.answer, layout, ascii_only=ascii_only)
    return row


def _rank(rank: int) -> str:
    return str(rank) if rank < 100_000 else short(rank).replace(" ", "")


def _token_width(record: Predictions, width: int) -> int:
    read = (token for one in record.predictions for token in (one.read, one.answer or ""))
    return max(4, min(max(cell_len(token_label(token)) for token in read), 16 if width >= 100 else 8))


def _heading(record: Predictions, one: Prediction) -> str:
    read = token_label(one.read)
    what = f"after {read}" if record.kind == "next" else f"in the place of {read}"
    return f"Position {one.position}, {what}: H = {one.entropy:.2f}, e^H = {short(math.exp(one.entropy))}"


def predictions_table(record: Predictions) -> CsvTable:
    """A row a candidate."""
    names = ("position", "read", "answer", "rank", "probability", "entropy", "candidate", "candidate_probability")
    rows = (
        (one.position, one.read, one.answer, one.rank, one.probability, one.entropy, two.token, two.probability)
        for one in record.predictions
        for two in one.candidates
    )
    return CsvTable(names, rows)
