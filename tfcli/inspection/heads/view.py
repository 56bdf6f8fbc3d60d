"""Roles of attention heads as tables: role, share beside chance, best sentence; and a head that was looked for."""

import shlex
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
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
    HeadsRecord,
    HeadStatistics,
    ReadSentence,
    RoleShare,
    SenseShares,
    Share,
)

_HEAD = 6
_COLUMN = 5
_TOKEN = 16
_AT = 4  # words that are named
_SPREAD = 0.8
_NEARLY_ALL = 0.9
_FAR = 90  # characters between query and key that are shown
_MARKS = "«from here» it looks [there], with that weight"

_TEXTS = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
_ROLE_WORDS: dict[str, str] = _TEXTS["roles"]


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
        order = {"role": "clearest roles first", "layer": "by layer"}.get(self.sort)
        apart = "; roles were chosen on one half of them and measured on the other" if record.chosen_apart else ""
        yield from heading(
            f"Attention heads · which does what · {order or 'by ' + self.sort.replace('_', ' ')}",
            f"{plural(len(record.heads), 'head')}, measured on {record.measured_on}, "
            f"{plural(record.tokens, 'token')}{apart}",
        )
        kinds = {head.kind: None for head in record.heads}
        parts = {kind: ranked([head for head in record.heads if head.kind == kind], self.sort) for kind in kinds}
        for kind, heads in parts.items():
            yield from heading(f"\n{KIND_NAMES[kind]}")
            yield _told(heads, brush)
        yield from dim(f"\nlayer.head, both from 0; {_MARKS}")
        shown: dict[_Column, None] = {}
        for kind, heads in parts.items():
            own = [column for column in _COLUMNS if any(value_of(head, column) is not None for head in heads)]
            columns = own[: max(1, (options.max_width - _HEAD) // _COLUMN)]
            shown |= dict.fromkeys(columns)
            yield from heading(f"\n{KIND_NAMES[kind]} in figures")
            names = " " * _HEAD + "".join(fit(column.heading, _COLUMN, "right") for column in columns)
            yield Text(names, style="dim", no_wrap=True)
            widths = [_COLUMN] * len(columns)
            for head in heads:
                texts, painted = zip(*(_cell(value_of(head, column), column) for column in columns), strict=True)
                yield from labelled_row(fit(head.place, _HEAD), texts, painted, widths, brush, before=1, faint="–")
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


class HeadsExplained(View[HeadsRecord]):
    """A paragraph a head, as one would say it to a friend."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush = brush_for(console, WEIGHTS)
        for number, head in enumerate(self.record.heads):
            space, place = "\n" if number else "", f"layer {head.layer}, head {head.head}"
            yield from heading(f"{space}Head {head.place} · {KIND_NAMES[head.kind]}, {place}")
            yield Text(explained(self.record, head))
            yield Padding(_sentence(head, brush), (0, 0, 0, 2))
            yield from dim(_MARKS)


def explained(record: HeadsRecord, head: HeadStatistics) -> str:
    """What a head mostly looks at, how often against chance, where else it looks, and what is not sure."""
    does, one = head.does, head.example
    apart = "one text is little, and what it looks at was chosen on the same text"
    if record.chosen_apart:
        apart = "what it looks at was chosen on one half of them and measured on the other"
        apart += " (in brackets: where 95 % of resamples have it)" if does else ""
    query = printable(one.text[slice(*one.query)])
    key = printable((one.text if one.source is None else one.source)[slice(*one.key)])
    if does is None:
        told = (
            f"This head has {NO_ROLE}: nothing that was looked for gets much more of its attention than chance would "
            f"give it. What it does: {_instead(head)}."
        )
    else:
        where = "" if not head.at else f" from {_at(head)} ({_whole(does.coverage)} of all tokens)"
        told = (
            f"This head {_adverb(does)} looks at {_words(head, does.role)}{where}: that gets {_whole(does.share)} of "
            f"its attention{_span(does)}, and from a head that looked at everything alike it would get "
            f"{_whole(does.chance)}."
        )
        if does.coverage < _NEARLY_ALL and not head.at:
            told += f" {_whole(does.coverage)} of the tokens have such a thing to look at."
    if (rest := head.of(head.beside)) is not None:
        told += f" Else it rests on {_words(head, rest.role)} ({_whole(rest.share)} of all its attention)."
    return (
        f"{told} Measured on {record.measured_on}, {plural(record.tokens, 'token')}; {apart}. What this does not say: "
        f"what the model makes of it, and whether it looks there in texts of another kind. "
        f"{'A clear case' if does else 'An example'}: from “{query}” it gives {_whole(one.weight)} to “{key}”."
    )


def commands(
    record: HeadsRecord, *, explained: bool, weights: Sequence[str] = (), measured: Sequence[str] = (), text: str = ""
) -> Iterator[str]:
    """What to type next, each on one line: to see the heads that were explained, else to have one explained; with the
    options that chose the weights, and those that chose what was measured on beside the TEXT."""
    if explained:
        for head in record.heads:
            one, place = head.example, ["--layer", str(head.layer), "--head", str(head.head)]
            target = [] if one.target is None else [f"--target={one.target}", "--kind", head.kind]
            words = shlex.join([*place, *target, *weights, "--", record.run, one.prompt])
            yield f"See {head.place}: tfcli inspect attention {words}"
    else:
        head = ranked(record.heads, "role")[0]
        kind = ["--kind", head.kind] if len({one.kind for one in record.heads}) > 1 else []
        options = ["--head", head.place, *kind, "--explain", *weights, *measured]
        said = shlex.join([*options, "--", record.run, text] if text else [record.run, *options])
        yield f"In words: tfcli inspect heads {said}"
    if record.finder:
        what = {"bank": "tells the banks apart", "alignment": "aligns words"}[record.finder]
        found = shlex.join([record.run, "--find", record.finder, *weights])
        yield f"Which head {what}: tfcli inspect heads {found}"


def ranked(heads: Sequence[HeadStatistics], sort: str) -> list[HeadStatistics]:
    """Heads by a figure, the largest first; by `role`, those at all tokens before those at some, and those without."""
    if sort == "layer":
        return sorted(heads, key=lambda head: (head.layer, head.head))
    if sort == "role":
        return sorted(
            heads, key=lambda head: (head.does is None, bool(head.at), -(head.does.above_chance if head.does else 0.0))
        )
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
            role = f"{_adverb(does)} {_words(head, does.role)}"
            line = Text.assemble((role, "bold"), f" {_whole(does.share)}{_span(does)}, by chance {_whole(does.chance)}")
            covered = f"{_whole(does.coverage)} of the tokens"
            if head.at:
                notes.append(f"from {_at(head)}: {covered}")
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
        marked.append(between)
        marked.append(f"{before}{printable(text[start:end])}{behind}", style)
        at = end
    return marked.append(printable(text[at:]))


def _adverb(does: RoleShare) -> str:
    return "mostly" if does.share >= 0.5 else "often"


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


def _at(head: HeadStatistics) -> str:
    """The query tokens of a role, the first few by name."""
    named = ", ".join(map(_token, head.at[:_AT]))
    return f"{named} and {len(head.at) - _AT} more" if len(head.at) > _AT else named


def _token(token: str) -> str:
    """In quotation marks, without the space before it.

    >>> _token(" bank"), _token(" ")
    ('“bank”', '“·”')
    """
    return f"“{shortened(token_label(token.strip(' ') or token), _TOKEN)}”"


def _span(does: RoleShare) -> str:
    return "" if does.low is None or does.high is None else f" ({does.low * 100:.0f} to {_whole(does.high)})"


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
    if value is None:
        return "–", NO_VALUE
    if column.share:
        return _number(value), _level(value)
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}", NO_VALUE


def _level(share: float) -> int:
    return round(max(0.0, min(1.0, share)) * (LEVELS - 1))


def _number(value: float) -> str:
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text


_SHOWN_FROM, _DEPTH = 0.05, 14
_QUERY = {
    "decoder_self": "From 'bank': the row of the token that is read, from which the next one is predicted.",
    "encoder_self": "From 'bank': the row of the token that is read.",
}


class AlignmentView(View[AlignmentFound]):
    """The cross-attention head that aligns words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
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
        yield from _sentences("Words that change their place", "→", record.examples, brush_for(console, WEIGHTS))


class BankView(View[BankFound]):
    """The head that looks from "bank" at the word that decides its sense, and the vectors of both banks."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, WEIGHTS)
        yield from heading(
            f"Which head tells the banks apart · {_name(record.head)}",
            f"{_QUERY[record.head.kind]} {_TEXTS['find']['decided']}",
            "",
        )
        of = ("sentences that no training story has", "sentences of training stories")
        facts = [
            _counted(f"{sense}{what}", share, note)
            for what, shares, note in (("", record.held_out, of[0]), (", chosen on", record.training, of[1]))
            for sense, share in vars(shares).items()
        ]
        facts.append(Fact("chance", percent(record.chance), "any content word"))
        for one in record.words:
            count = f"{exact(one.held_out.hits)} of {exact(one.held_out.count)}"
            note = f"head {_place_of(one.head)}: {count} held-out sentences it decides"
            facts.append(Fact(f"“{one.word}”", percent(one.held_out.value), note))
        yield Facts("Words found", facts)
        if record.lecture:
            yield from heading("\nBishop's two sentences, which no training story has: weights from 'bank'")
            yield from dim("in brackets: the words that decide; rest: what tokens beside the words get, such as <s>")
        for _, reads in groupby(record.lecture, lambda one: one.sentence.words):
            for number, read in enumerate(reads):
                if number == 0:
                    yield _lecture_words(read.sentence)
                yield from _lecture_row(_place_of(read.head), read.sentence, brush)
        yield from heading("\nThe vector of 'bank', layer by layer", _TEXTS["find"]["vectors"], "")
        yield Text(f"{'':{_DEPTH}}   river   money  between  nearest   Bishop's two", style="bold dim")
        for depth in record.vectors:
            name = "embedding" if depth.depth == 0 else f"after layer {depth.depth - 1}"
            cosines = "".join(f"{_cosine(value):>8}" for value in (depth.river, depth.money, depth.between))
            nearest = "equal" if depth.nearest is None else percent(depth.nearest.value)
            yield Text(f"{name:{_DEPTH}}{cosines} {nearest:>8} {_cosine(depth.lecture):>14}", no_wrap=True)


def _place_of(head: Head) -> str:
    return f"{head.layer}.{head.head}"


def _cosine(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _widths(one: ReadSentence) -> list[int]:
    """Of each word, in brackets where it decides, and of the rest."""
    return [max(4, len(printable(word)) + 1 + 2 * (n in one.right)) for n, word in enumerate(one.words)] + [6]


def _lecture_words(one: ReadSentence) -> Text:
    """The sentence word for word, to stand over its weights."""
    words = [f"[{printable(word)}]" if n in one.right else printable(word) for n, word in enumerate(one.words)]
    cells = (f"{word:>{width}}" for word, width in zip((*words, "rest"), _widths(one), strict=True))
    return Text(f"\n{'':{_HEAD - 1}}{''.join(cells)}", style="bold")


def _lecture_row(name: str, one: ReadSentence, brush: Brush) -> Iterator[Segment]:
    """A head's weights on every word, and on what is between and before them."""
    values = [*one.weights, max(0.0, 1 - sum(one.weights))]
    painted = [_level(value) for value in values]
    yield from labelled_row(
        f"{name:<{_HEAD - 1}}", [_number(value) for value in values], painted, _widths(one), brush, before=1
    )
    yield Segment.line()


def found_table(record: AlignmentFound | BankFound) -> CsvTable:
    """A row a figure, and where it has two, a sense."""
    place, rows = tuple(vars(record.head).values()), list[tuple[Any, ...]]()
    for name, value in vars(record).items():
        shares = {f"{name}.{sense}": of for sense, of in vars(value).items()} if isinstance(value, SenseShares) else {}
        shares |= {name: value} if isinstance(value, Share) else {}
        rows += [(*place, figure, share.value, share.hits, share.count) for figure, share in shares.items()]
    columns = ("kind", "layer", "head", "figure", "share", "found", "of")
    return CsvTable(columns, [*rows, (*place, "chance", record.chance, None, None)])


def _name(head: Head) -> str:
    return f"{KIND_NAMES[head.kind]}, layer {head.layer}, head {head.head}"


def _counted(name: str, share: Share, of: str) -> Fact:
    return Fact(name, percent(share.value), f"{exact(share.hits)} of {exact(share.count)} {of}")


def _sentences(title: str, sign: str, sentences: tuple[ReadSentence, ...], brush: Brush) -> RenderResult:
    yield from heading(f"\n{title}")
    for one in sentences:
        query, verdict = (printable(one.query), "bold"), "✓" if one.hit else "✗"
        yield Text.assemble(_weighed_words(one, brush), f" {sign} ", query, f"  {verdict}")
    if brush.in_color:
        yield from scale_bar("0", "1", brush)
    indent, right = ("  ", "underlined") if brush.in_color else ("", "in brackets")
    yield from dim(f"{indent}weight of a word, as a number from .05 up; {right}: the right one")


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
