"""Roles of attention heads as tables: role, share beside chance, best sentence; and a head that was looked for."""

import shlex
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import LEVELS, NO_VALUE, WEIGHTS, Brush, brush_for
from tfcli.draw.heatmap import labelled_row, scale_bar
from tfcli.draw.numbers import exact, percent, plural, weight
from tfcli.draw.safe import fit, printable, shortened, token_label
from tfcli.draw.tables import CsvTable, Fact, Facts, dim, heading
from tfcli.inspection.attention.matrix_view import KIND_NAMES
from tfcli.inspection.heads import (
    NO_ROLE,
    AlignmentFound,
    BankFound,
    Head,
    HeadReads,
    HeadsRecord,
    HeadStatistics,
    ReadSentence,
    SenseShares,
    Share,
)

_HEAD, _COLUMN, _TOKEN = 6, 5, 16  # cells
_AT = 4  # words that are named
_SPREAD, _NEARLY_ALL = 0.8, 0.9
_FAR = 90  # characters between query and key that are shown

_TEXTS = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
_ROLE_WORDS: dict[str, str] = _TEXTS["roles"]
_SHOWN_FROM, _DEPTH = 0.05, 14  # weight that is written, and cells of a depth's name


class _Column(NamedTuple):
    """A figure; `role`: whose share it is; `share`: whether it is one of 1."""

    key: str
    heading: str
    meaning: str
    role: str = ""
    share: bool = True


_COLUMNS = [_Column(**column) for column in _TEXTS["columns"]]
SORT_KEYS = ("role", "layer", *(column.key for column in _COLUMNS))


@dataclass(frozen=True)
class HeadsView(View[HeadsRecord]):
    """Every head in words, with its best sentence; then a table of figures, a part a kind of attention."""

    sort: str = "role"  # one of SORT_KEYS; figures from the largest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, WEIGHTS)
        orders = {"role": "clearest roles first", "layer": "by layer"}
        apart = "; roles were chosen on one half of them and measured on the other" if record.chosen_apart else ""
        of = f"{plural(len(record.heads), 'head')}, measured on {record.measured_on}, {plural(record.tokens, 'token')}"
        order = orders.get(self.sort, f"by {self.sort.replace('_', ' ')}")
        yield from heading(f"Attention heads · which does what · {order}", of + apart)
        kinds = dict.fromkeys(head.kind for head in record.heads)
        parts = {kind: ranked([head for head in record.heads if head.kind == kind], self.sort) for kind in kinds}
        for kind, heads in parts.items():
            yield from heading(f"\n{KIND_NAMES[kind]}")
            yield _told(heads, brush)
        yield from dim("\nlayer.head, both from 0; «from here» it looks [there], with that weight")
        shown: dict[_Column, None] = {}
        for kind, heads in parts.items():
            own = [column for column in _COLUMNS if any(value_of(head, column) is not None for head in heads)]
            columns = own[: max(1, (options.max_width - _HEAD) // _COLUMN)]
            shown |= dict.fromkeys(columns)
            yield from heading(f"\n{KIND_NAMES[kind]} in figures")
            names = " " * _HEAD + "".join(fit(column.heading, _COLUMN, "right") for column in columns)
            yield Text(names, style="dim", no_wrap=True)
            for head in heads:
                texts, painted = zip(*(_cell(value_of(head, column), column) for column in columns), strict=True)
                widths, name = [_COLUMN] * len(columns), fit(head.place, _HEAD)
                yield from labelled_row(name, texts, painted, widths, brush, before=1, faint="–")
                yield Segment.line()
        yield Text()
        if brush.in_color:
            yield from scale_bar("0", "1", brush)
            yield from dim("  share of attention, mean over rows")
        for column in shown:
            yield Text.assemble((fit(column.heading, _COLUMN), "bold"), (column.meaning, "dim"))
        if record.repeated and any(column.key == "induction" for column in shown):
            copies = f"{record.sequences} sequences of n = {record.repeated} random tokens"
            yield from dim(f"ind, dup: on {copies}, read twice in a row (Olsson et al. 2022)")


def commands(record: HeadsRecord, weights: Sequence[str] = ()) -> Iterator[str]:
    """What to type next, a line each: to see the clearest head, to find one for a job; with the weights' options."""
    head = ranked(record.heads, "role")[0]
    one, place = head.example, ["--head", head.place]
    target = [] if one.target is None else [f"--target={one.target}", "--kind", head.kind]
    see = shlex.join([*place, *target, *weights, "--", record.run, one.prompt])
    yield f"See {head.place}: tfcli inspect attention {see}"
    if record.finder:
        what = {"bank": "tells the banks apart", "alignment": "aligns words"}[record.finder]
        found = shlex.join([record.run, "--find", record.finder, *weights])
        yield f"Which head {what}: tfcli inspect heads {found}"


def ranked(heads: Sequence[HeadStatistics], sort: str) -> list[HeadStatistics]:
    """Heads by a figure, the largest first; by `role`, those at all tokens before those at some, and those without."""
    if sort == "layer":
        return sorted(heads, key=lambda head: (head.layer, head.head))
    if sort == "role":
        return sorted(heads, key=lambda one: (not one.does, bool(one.at), -getattr(one.does, "above_chance", 0.0)))
    [column] = [column for column in _COLUMNS if column.key == sort]
    return sorted(heads, key=lambda head: -(value_of(head, column) or 0.0))


def heads_table(record: HeadsRecord) -> CsvTable:
    """A row a head."""
    own, does = ("kind", "layer", "head", "role"), ("share", "low", "high", "chance", "coverage")
    rows = []
    for head in record.heads:
        about = [*(getattr(head, key) for key in own), *(getattr(head.does, key, None) for key in does)]
        rows.append([*about, *(value_of(head, column) for column in _COLUMNS)])
    return CsvTable((*own, *does, *(column.key for column in _COLUMNS)), rows)


def _told(heads: Sequence[HeadStatistics], brush: Brush) -> Table:
    """Place, role and sentence of each."""
    grid = Table.grid()
    grid.add_column(width=_HEAD, no_wrap=True)
    grid.add_column(overflow="fold")
    for head in heads:
        does, notes = head.does, []
        if does is None:
            line = Text.assemble((NO_ROLE, "bold"), f": {_instead(head)}")
        else:
            role = f"{'mostly' if does.share >= 0.5 else 'often'} {_words(head, does.role)}"
            span = "" if does.low is None or does.high is None else f" ({does.low * 100:.0f} to {_whole(does.high)})"
            line = Text.assemble((role, "bold"), f" {_whole(does.share)}{span}, by chance {_whole(does.chance)}")
            covered = f"{_whole(does.coverage)} of the tokens"
            if head.at:
                more = f" and {len(head.at) - _AT} more" if len(head.at) > _AT else ""
                notes.append(f"from {', '.join(map(_token, head.at[:_AT]))}{more}: {covered}")
            elif does.coverage < _NEARLY_ALL:
                notes.append(f"{covered} have one")
        if (rest := head.of(head.beside)) is not None:
            notes.append(f"rests on {_words(head, rest.role)} {_whole(rest.share)}")
        grid.add_row(head.place, line.append(f" · {' · '.join(notes)}" if notes else "", "dim"))
        grid.add_row("", _sentence(head, brush))
    return grid


def _sentence(head: HeadStatistics, brush: Brush) -> Text:
    """The example with query and key marked, and what the key gets."""
    one = head.example
    key = (one.key, "[", "]", brush.readable(_level(one.weight)) if brush.in_color else "")
    query = (one.query, "«", "»", "underline")
    if one.source is not None:
        text = Text.assemble(_marked(one.source, key), " ← ", _marked(one.text, query))
    elif one.query == one.key:
        text = _marked(one.text, (one.query, "«[", "]»", "underline"))
    else:
        text = _marked(one.text, *sorted((query, key)))
    return text.append(f"  {_number(one.weight)}", "bold")


def _marked(text: str, *marks: tuple[tuple[int, int], str, str, Style | str]) -> Text:
    """A text with its marked places between signs, on one line; what is far between two of them is left out."""
    marked, at = Text(), 0
    for (start, end), before, behind, style in marks:
        between = printable(text[at:start])
        if at and len(between) > _FAR:
            between = f"{between[: _FAR // 2].rsplit(' ', 1)[0]} … {between[-_FAR // 2 :].split(' ', 1)[-1]}"
        marked.append(between).append(f"{before}{printable(text[start:end])}{behind}", style)
        at = end
    return marked.append(printable(text[at:]))


def _words(head: HeadStatistics, role: str) -> str:
    """A role in words."""
    if words := _ROLE_WORDS.get(role):
        return words.replace("elsewhere", "before") if head.kind == "decoder_self" else words
    count, _, side = role.split(" ")
    return f"the token {count} {side} it"


def _instead(head: HeadStatistics) -> str:
    """What a head does that has no role."""
    even = head.entropy_share or 0.0
    told = "spread out" if even >= _SPREAD else f"by content, {_whole(head.sharpness)} on one token"
    most = ", ".join(f"{_token(name)} {_whole(share)}" for name, share in head.favourites)
    pairs = ", ".join(f"from {_token(query)} to {_token(key)}" for query, key in head.pairs)
    return f"{told} (entropy {_whole(even)} of the largest); most goes to {most}; mainly {pairs}"


def _token(token: str) -> str:
    """In quotation marks, without the space before it.

    >>> _token(" bank"), _token(" ")
    ('“bank”', '“·”')
    """
    return f"“{shortened(token_label(token.strip(' ') or token), _TOKEN)}”"


def _whole(share: float) -> str:
    return f"{share * 100:.0f} %"


def value_of(head: HeadStatistics, column: _Column) -> float | None:
    """A figure of a head; None where it has none."""
    found: float | None = getattr(head.of(column.role), "share", None) if column.role else getattr(head, column.key)
    return found


def followed(sort: str, *, cross: bool) -> _Column:
    """The figure that an evolution follows: the one that is sorted by, else induction, or order in cross-attention."""
    usual = "in_order" if cross else "induction"
    return next(column for column in _COLUMNS if column.key == (usual if sort in ("role", "layer") else sort))


def _cell(value: float | None, column: _Column) -> tuple[str, int]:
    """What stands in it, and the level of its colour."""
    if value is not None and column.share:
        return _number(value), _level(value)
    return "–" if value is None else f"{value:.{1 if value >= 9.995 else 2}f}", NO_VALUE


def _level(share: float) -> int:
    return round(max(0.0, min(1.0, share)) * (LEVELS - 1))


def _number(value: float) -> str:
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text


class AlignmentView(View[AlignmentFound]):
    """The cross-attention head that aligns words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, WEIGHTS)
        held_out = f"words of {plural(record.held_out_pairs, 'sentence')} that training never had"
        facts = (
            _counted("held out", record.held_out, held_out),
            _counted("of them reordered", record.reordered, "words"),
            _counted("chosen on", record.training, f"words of {plural(record.training_pairs, 'training sentence')}"),
            Fact("all heads' mean", percent(record.mean_of_heads.value), "their average in place of the head"),
            Fact("same place", percent(record.same_place.value), "the source word of that number, without looking"),
            Fact("chance", percent(record.chance), "any source word"),
        )
        yield from heading(f"Which head aligns words · {_name(record.head)}", _TEXTS["find"]["aligned"], "")
        yield Facts("Words found", facts)
        yield from heading("\nWords that change their place")
        for one in record.examples:
            query, verdict = (printable(one.query), "bold"), "✓" if one.hit else "✗"
            yield Text.assemble(_weighed_words(one, brush), " → ", query, f"  {verdict}")
        if brush.in_color:
            yield from scale_bar("0", "1", brush)
        indent, right = ("  ", "underlined") if brush.in_color else ("", "in brackets")
        yield from dim(f"{indent}weight of a word, as a number from .05 up; {right}: the right one")


class BankView(View[BankFound]):
    """The head that looks from "bank" at the word that decides its sense, and the vectors of both banks."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, WEIGHTS)
        predicts = ", from which the next one is predicted" if record.head.kind == "decoder_self" else ""
        yield from heading(
            f"Which head tells the banks apart · {_name(record.head)}",
            f"From 'bank': the row of the token that is read{predicts}. {_TEXTS['find']['decided']}",
            "",
        )
        held_out = ("", record.held_out, "sentences that no training story has")
        parts = held_out, (", chosen on", record.training, "sentences of training stories")
        facts = [_counted(sense + what, share, of) for what, both, of in parts for sense, share in vars(both).items()]
        facts.append(Fact("chance", percent(record.chance), "any content word"))
        for one in record.words:
            fact = _counted(f"“{one.word}”", one.held_out, "held-out sentences it decides")
            facts.append(replace(fact, note=f"head {one.head.place}: {fact.note}"))
        yield Facts("Words found", facts)
        if record.lecture:
            yield from heading("\nBishop's two sentences, which no training story has: weights from 'bank'")
            yield from dim("in brackets: the words that decide; rest: what tokens beside the words get, such as <s>")
        for _, reads in groupby(record.lecture, lambda one: one.sentence.words):
            yield from _lecture(tuple(reads), brush)
        yield from heading("\nThe vector of 'bank', layer by layer", _TEXTS["find"]["vectors"], "")
        yield Text(f"{'':{_DEPTH}}   river   money  between  nearest   Bishop's two", style="bold dim")
        for depth in record.vectors:
            name = "embedding" if depth.depth == 0 else f"after layer {depth.depth - 1}"
            cosines = "".join(f"{_cosine(value):>8}" for value in (depth.river, depth.money, depth.between))
            nearest = "equal" if depth.nearest is None else percent(depth.nearest.value)
            yield Text(f"{name:{_DEPTH}}{cosines} {nearest:>8} {_cosine(depth.lecture):>14}", no_wrap=True)


def _cosine(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _lecture(reads: Sequence[HeadReads], brush: Brush) -> RenderResult:
    """A sentence word for word over what each head gives every word, and what is between and before them."""
    one = reads[0].sentence
    words = [f"[{printable(word)}]" if n in one.right else printable(word) for n, word in enumerate(one.words)]
    widths = [*(max(4, len(word) + 1) for word in words), 6]
    cells = (f"{word:>{width}}" for word, width in zip((*words, "rest"), widths, strict=True))
    yield Text(f"\n{'':{_HEAD - 1}}{''.join(cells)}", style="bold")
    for read in reads:
        values = [*read.sentence.weights, max(0.0, 1 - sum(read.sentence.weights))]
        name, texts, painted = f"{read.head.place:<{_HEAD - 1}}", [*map(_number, values)], [*map(_level, values)]
        yield from labelled_row(name, texts, painted, widths, brush, before=1)
        yield Segment.line()


def found_table(record: AlignmentFound | BankFound) -> CsvTable:
    """A row a figure, and where it has two, a sense."""
    place, shares = tuple(vars(record.head).values()), dict[str, Share]()
    for name, value in vars(record).items():
        if isinstance(value, SenseShares):
            shares |= {f"{name}.{sense}": share for sense, share in vars(value).items()}
        elif isinstance(value, Share):
            shares[name] = value
    rows = [(*place, name, share.value, share.hits, share.count) for name, share in shares.items()]
    columns = ("kind", "layer", "head", "figure", "share", "found", "of")
    return CsvTable(columns, [*rows, (*place, "chance", record.chance, None, None)])


def _name(head: Head) -> str:
    return f"{KIND_NAMES[head.kind]}, layer {head.layer}, head {head.head}"


def _counted(name: str, share: Share, of: str) -> Fact:
    return Fact(name, percent(share.value), f"{exact(share.hits)} of {exact(share.count)} {of}")


def _weighed_words(one: ReadSentence, brush: Brush) -> Text:
    text = Text()
    for number, (word, value) in enumerate(zip(one.words, one.weights, strict=True)):
        is_shown, is_right = value >= _SHOWN_FROM, number in one.right
        shown = f"{printable(word)} {weight(value)}" if is_shown else printable(word)
        start = len(text.append(" " * (number > 0)))
        colour = brush.readable(_level(value)) if brush.in_color and is_shown else ""
        text.append(f"[{shown}]" if is_right and not brush.in_color else shown, colour)
        if is_right:
            text.stylize("underline bold", start, len(text))
    return text
