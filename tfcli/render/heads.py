"""Which head does what: every head in a line, under the kind of attention it belongs to, the clearest roles first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.attention import AttentionKind
from tfcli.records.heads import HeadsRecord, HeadStatistics
from tfcli.render.attention.words import KIND_NAMES
from tfcli.render.brush import Brush, brush_for
from tfcli.render.cells import scale_bar
from tfcli.render.colors import LEVELS, WEIGHTS
from tfcli.render.numbers import plural
from tfcli.render.safe import fit, token_label, widest
from tfcli.render.table_csv import Table

_HEAD = 7
_COLUMN = 5
_LEAST_ROLE, _MOST_ROLE = 20, 46
_TOKEN = 10


class _Column(NamedTuple):
    """A statistic: what stands over it, what it is, and whether it is a share of 1, which has a colour."""

    key: str
    heading: str
    meaning: str
    share: bool = True


_COLUMNS = (
    _Column("previous", "prev", "on the token before: a(t, t−1), t ≥ 1"),
    _Column("next", "next", "on the token after: a(t, t+1), t ≥ 1"),
    _Column("first", "1st", "on the first token: a(t, 0), t ≥ 1"),
    _Column("itself", "self", "on the token itself: a(t, t), t ≥ 1"),
    _Column("induction", "ind", "on the token behind its earlier copy: a(t, t−n+1)"),
    _Column("duplicate", "dup", "on its earlier copy: a(t, t−n)"),
    _Column("in_order", "ord", "steps at which the strongest source token does not go back"),
    _Column("sharpness", "max", "the largest weight of a row"),
    _Column("entropy_share", "even", "H as a share of the largest, mean ln(visible keys)"),
    _Column("entropy", "H", "entropy of a row, −Σ a ln a, in nats", share=False),
    _Column("distance", "dist", "how far away it looks: Σ a |t − s|, in tokens", share=False),
)
SORT_KEYS = ("role", "layer", *(column.key for column in _COLUMNS))


@dataclass(frozen=True)
class HeadsView:
    """The table, a part a kind of attention, and what its columns are.

    Args:
        sort: one of SORT_KEYS; statistics from the largest.
    """

    record: HeadsRecord
    sort: str = "role"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush = brush_for(console, WEIGHTS)
        yield Text(f"Attention heads · which does what · {_order(self.sort)}", style="bold")
        yield Text(_measured(self.record), style="dim")
        shown: dict[str, _Column] = {}
        for kind in dict.fromkeys(head.kind for head in self.record.heads):
            heads = ranked([head for head in self.record.heads if head.kind == kind], self.sort)
            columns = _fitting(heads, options.max_width)
            shown |= {column.key: column for column in columns}
            yield Text("")
            yield from _part(kind, heads, columns, options.max_width, brush)
        yield Text("")
        if brush.in_color:
            yield from scale_bar("0", "1", brush)
            yield Text("  share of attention, mean over rows", style="dim")
        for column in shown.values():
            yield Text.assemble((fit(column.heading, _COLUMN), "bold"), (column.meaning, "dim"))
        if self.record.repeated and "induction" in shown:
            copies = f"{self.record.sequences} sequences of n = {self.record.repeated} random tokens"
            yield Text(f"ind, dup: on {copies}, read twice in a row (Olsson et al. 2022)", style="dim")
        yield Text(_ROLES, style="dim")


_ROLES = (
    "does: the largest of these shares, from .30 up; else spread out (even from .80 up); else by content, with the "
    "tokens that get most of its weight. Cross-attention: in order, or one token at a time (max from .60 up)."
)


def ranked(heads: Sequence[HeadStatistics], sort: str) -> list[HeadStatistics]:
    """Heads by a statistic, the largest first; by `role`, those with a place they look at before those without."""
    if sort == "layer":
        return sorted(heads, key=lambda head: (head.layer, head.head))
    if sort == "role":
        return sorted(heads, key=lambda head: (head.role in ("by content", "spread out"), -head.role_score))
    return sorted(heads, key=lambda head: -(getattr(head, sort) or 0.0))


def heads_table(record: HeadsRecord) -> Table:
    """A row a head."""
    keys = ("kind", "layer", "head", "role", "role_score", *(column.key for column in _COLUMNS))
    return Table(keys, ([getattr(head, key) for key in keys] for head in record.heads))


def _part(
    kind: AttentionKind, heads: Sequence[HeadStatistics], columns: Sequence[_Column], width: int, brush: Brush
) -> RenderResult:
    role = min(_MOST_ROLE, width - _HEAD - _COLUMN * len(columns))
    yield Text(KIND_NAMES[kind], style="bold")
    heading = fit("", _HEAD) + fit("does", role) + "".join(fit(column.heading, _COLUMN, "right") for column in columns)
    yield Text(heading.rstrip(), style="dim", no_wrap=True)
    for head in heads:
        line = Text.assemble(fit(f"L{head.layer} H{head.head}", _HEAD), (fit(_role(head), role), "bold"), no_wrap=True)
        for column in columns:
            line.append_text(_cell(getattr(head, column.key), column, brush))
        line.rstrip()
        yield line


def _role(head: HeadStatistics) -> str:
    """In words: "previous token .93", "by content: ", .12  · the .09"."""
    words = f"{head.role} {_number(head.role_score)}"
    if head.role != "by content":
        return words
    favourites = " ".join(f"{fit_label(token)} {_number(share)}" for token, share in head.favourites)
    return f"{head.role}: {favourites}"


def fit_label(token: str) -> str:
    """A token's label, cut where it is long."""
    label = token_label(token)
    return fit(label, _TOKEN) if widest((label,)) > _TOKEN else label


def _cell(value: float | None, column: _Column, brush: Brush) -> Text:
    if value is None:
        return Text(fit("–", _COLUMN, "right"), "dim")
    if not column.share:
        return Text(fit(f"{value:.1f}" if value >= 9.995 else f"{value:.2f}", _COLUMN, "right"))
    level = round(max(0.0, min(1.0, value)) * (LEVELS - 1))
    return Text(" ").append(fit(_number(value), _COLUMN - 1, "right"), brush.readable(level) if brush.in_color else "")


def _number(value: float) -> str:
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text


def _fitting(heads: Sequence[HeadStatistics], width: int) -> list[_Column]:
    """Of the columns that the kind has, the first that leave room for the role."""
    own = [column for column in _COLUMNS if any(getattr(head, column.key) is not None for head in heads)]
    return own[: max(1, (width - _HEAD - _LEAST_ROLE) // _COLUMN)]


def _order(sort: str) -> str:
    return {"role": "clearest roles first", "layer": "by layer"}.get(sort, f"by {sort.replace('_', ' ')}")


def _measured(record: HeadsRecord) -> str:
    return f"{plural(len(record.heads), 'head')}, measured on {record.measured_on}, {plural(record.tokens, 'token')}"
