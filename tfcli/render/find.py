"""A head that was looked for: which one, how often it is right, and sentences coloured by where it looks."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.find import AlignmentFound, BankFound, Head, ReadSentence, SenseShares, Share
from tfcli.render.attention.words import KIND_NAMES
from tfcli.render.brush import Brush, brush_for
from tfcli.render.cells import scale_bar
from tfcli.render.colors import LEVELS, WEIGHTS
from tfcli.render.facts import Fact, Facts
from tfcli.render.numbers import exact, percent, plural, weight
from tfcli.render.safe import printable
from tfcli.render.table_csv import Table

_SHOWN_FROM = 0.05
_ALIGNED = (
    "A target word is found when, on the row that predicts it, a source word that the grammar put there gets more "
    "attention than any other: the sum over its tokens. Punctuation is no word."
)
_DECIDED = (
    "The deciding word is found when it gets more attention than any other content word before 'bank': the sum over "
    "its tokens. A deciding word of the other sense stands before each 'bank', too, so that the order counts."
)


@dataclass(frozen=True)
class AlignmentView:
    """The cross-attention head that aligns words."""

    record: AlignmentFound

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        yield Text(f"Which head aligns words · {_name(record.head)}", style="bold")
        yield Text(_ALIGNED, style="dim")
        yield Text("")
        held_out = f"words of {plural(record.held_out_pairs, 'sentence')} that training never had"
        yield Facts(
            "Words found",
            [
                Fact("held out", percent(record.held_out.value), f"{_counts(record.held_out)} {held_out}"),
                Fact("of them reordered", percent(record.reordered.value), f"{_counts(record.reordered)} words"),
                Fact("chosen on", percent(record.training.value), _of_pairs(record)),
                Fact("all heads' mean", percent(record.mean_of_heads.value), "their average in place of the head"),
                Fact(
                    "same place",
                    percent(record.same_place.value),
                    "the source word of that number, without looking",
                ),
                Fact("chance", percent(record.chance), "any source word"),
            ],
        )
        yield Text("")
        yield from _sentences("Words that change their place", "→", record.examples, brush_for(console, WEIGHTS))


@dataclass(frozen=True)
class BankView:
    """The head that looks from "bank" at the word that decides its sense."""

    record: BankFound

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        yield Text(f"Which head tells the banks apart · {_name(record.head)}, from {_row(record.row)}", style="bold")
        yield Text(_DECIDED, style="dim")
        yield Text("")
        both = Share(
            record.held_out.river.hits + record.held_out.money.hits,
            record.held_out.river.count + record.held_out.money.count,
        )
        yield Facts(
            f"Deciding words found in {exact(both.count)} held-out sentences",
            [
                *_senses("", record.held_out, "sentences that no training story has"),
                *_senses(", shuffled", record.shuffled, "with the tokens before 'bank' in another order"),
                *_senses(", chosen on", record.training, "sentences of training stories"),
                Fact("chance", percent(record.chance), "any content word"),
                *([] if record.beside is None else [_beside(record.beside)]),
            ],
        )
        yield Text("")
        yield from _sentences("Where it looks", "· from", record.examples, brush_for(console, WEIGHTS))


def alignment_table(record: AlignmentFound) -> Table:
    """A row a figure."""
    shares = {name: getattr(record, name) for name in ("training", "held_out", "reordered", "mean_of_heads")}
    return _table(record.head, shares | {"same_place": record.same_place}, record.chance)


def bank_table(record: BankFound) -> Table:
    """A row a figure and sense."""
    shares = {
        f"{name}.{sense}": getattr(getattr(record, name), sense)
        for name in ("training", "held_out", "shuffled")
        for sense in ("river", "money")
    }
    beside = {} if record.beside is None else {"beside": record.beside}
    return _table(record.head, shares | beside, record.chance)


def _table(head: Head, shares: dict[str, Share], chance: float) -> Table:
    place = (head.kind, head.layer, head.head)
    rows = [(*place, name, share.value, share.hits, share.count) for name, share in shares.items()]
    columns = ("kind", "layer", "head", "figure", "share", "found", "of")
    return Table(columns, [*rows, (*place, "chance", chance, None, None)])


def _row(row: str) -> str:
    return "'bank'" if row == "bank" else f"{row} 'bank'"


def _name(head: Head) -> str:
    return f"{KIND_NAMES[head.kind]}, layer {head.layer}, head {head.head}"


def _counts(share: Share) -> str:
    return f"{exact(share.hits)} of {exact(share.count)}"


def _of_pairs(record: AlignmentFound) -> str:
    return f"{_counts(record.training)} words of {plural(record.training_pairs, 'training sentence')}"


def _senses(what: str, shares: SenseShares, note: str) -> Iterator[Fact]:
    for sense, share in (("river", shares.river), ("money", shares.money)):
        yield Fact(f"{sense}{what}", percent(share.value), f"{_counts(share)} {note}")


def _beside(share: Share) -> Fact:
    note = "sentences in which words next to 'bank' tell (the other bank, cash from the bank): no need to look farther"
    return Fact("told beside", percent(share.value), f"{_counts(share)} {note}")


def _sentences(title: str, sign: str, sentences: tuple[ReadSentence, ...], brush: Brush) -> RenderResult:
    yield Text(title, style="bold")
    for one in sentences:
        yield Text.assemble(_sentence(one, brush), f" {sign} ", (printable(one.query), "bold"), f"  {_verdict(one)}")
    if brush.in_color:
        yield from scale_bar("0", "1", brush)
    yield Text(_legend(brush), style="dim")


def _legend(brush: Brush) -> str:
    right = "underlined" if brush.in_color else "in brackets"
    return f"{'  ' if brush.in_color else ''}weight of a word, as a number from .05 up; {right}: the right one"


def _sentence(one: ReadSentence, brush: Brush) -> Text:
    text = Text()
    for number, (word, value) in enumerate(zip(one.words, one.weights, strict=True)):
        text.append(" " if number else "")
        level = round(max(0.0, min(1.0, value)) * (LEVELS - 1))
        right = number in one.right
        style = brush.readable(level) if brush.in_color and value >= _SHOWN_FROM else ""
        shown = f"{printable(word)} {weight(value)}" if value >= _SHOWN_FROM else printable(word)
        start = len(text)
        text.append(f"[{shown}]" if right and not brush.in_color else shown, style)
        if right:
            text.stylize("underline bold", start, len(text))
    return text


def _verdict(one: ReadSentence) -> str:
    return "✓" if one.hit else "✗"
