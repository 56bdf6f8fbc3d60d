"""A text as its tokens, and a tokenizer in numbers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from operator import attrgetter

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import has_colors
from tfcli.draw.numbers import exact, percent, plural, short
from tfcli.draw.safe import broken, fit, printable, token_label, widest
from tfcli.draw.tables import Fact, Facts, aligned, dim, heading
from tfcli.records.dataset import Encoding, TokenizerComparison, TokenizerQuality, TokenizerReport, VocabularyExtension

_PAPERS = ("#1f4e79", "#5b3a72")


class EncodingView(View[Encoding]):
    """Tokens in text order as blocks of two colours (without colour: between bars), their ids under them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        encoding = self.record
        in_color = has_colors(console)
        blocks = [
            (label, token_id, min(max(cell_len(label), len(str(token_id))), 40), token.endswith("\n"))
            for token, token_id in zip(encoding.tokens, encoding.token_ids, strict=True)
            for label in [token_label(token)]
        ]
        papers = cycle(Style(color="#ffffff", bgcolor=paper) for paper in _PAPERS)
        for line in broken(blocks, options.max_width, lambda one: one[2], lambda one: one[3]):
            for label, _, width, _ in line:
                yield Segment(fit(label, width) + (" " if in_color else "│"), next(papers) if in_color else None)
            ids = "".join(f"{token_id:<{width}} " for _, token_id, width, _ in line)
            yield Segment.line()
            yield Segment(f"{ids.rstrip()}\n", Style(dim=True))
        unknown = f", {exact(encoding.unknown)} of them unknown" if encoding.unknown else ""
        text = encoding.text
        size = f"{plural(len(text), 'character')}, {plural(len(text.encode('utf-8', 'replace')), 'byte')}"
        yield from dim(f"{size} → {plural(len(blocks), 'token')}{unknown}")


def tokenizer_view(report: TokenizerReport) -> Facts:
    """A tokenizer and what it made of its text."""
    share = report.unknown / report.tokens if report.tokens else 0.0
    facts = [
        Fact("vocabulary", exact(report.vocab_size), "tokens"),
        Fact("documents", exact(report.documents), "read"),
        Fact("characters", exact(report.characters)),
        Fact("bytes", exact(report.bytes), "UTF-8"),
        Fact("tokens", exact(report.tokens)),
        Fact("bytes per token", f"{report.bytes_per_token:.2f}", "more text in a token means shorter sequences"),
        Fact("unknown", exact(report.unknown), f"{percent(share)} of the tokens" if share else "nothing was lost"),
    ]
    if report.learned_bytes not in (None, report.bytes):
        facts.append(Fact("learned from", exact(report.learned_bytes), "bytes, drawn from everywhere in it"))
    if (learned := report.stretches_learned) < 1:
        facts.append(Fact("learned from", percent(learned), "of its long stretches without white space"))
    return Facts(f"Tokenizer · {report.algorithm} · {report.fingerprint[:12]}", facts)


def extension_view(extension: VocabularyExtension) -> Facts:
    """New rows of an embedding, and what they do to the first loss."""
    drawn = f"nats per token; {extension.loss_before:.4f} with new rows drawn at random"
    facts = [
        Fact("rows", exact(extension.rows), f"{exact(extension.rows_before)} of them as they were"),
        Fact("new tokens", exact(extension.tokens), "begin as the mean of the pieces that they replace"),
        Fact("first loss", f"{extension.loss_after:.4f}", drawn),
    ]
    return Facts("Vocabulary extended", facts)


_SHARE_OF_NAME = 5  # a name has up to a fifth of the width
_BEST = "*"


@dataclass(frozen=True)
class _Column:
    """A figure of every tokenizer; `best` picks those that no other is better than, where "better" means something."""

    heading: str
    meaning: str
    text: Callable[[TokenizerQuality], str]
    best: Callable[[Sequence[TokenizerQuality]], set[int]] = lambda rows: set()


class TokenizerComparisonView(View[TokenizerComparison]):
    """The text in numbers, the tables with the best of a column marked, and what every column means."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        compared, rows = self.record, self.record.tokenizers
        units = ("document", "word", "character", "byte")
        about = ", ".join(plural(getattr(compared, f"{unit}s"), unit) for unit in units)
        yield from heading(f"{plural(len(rows), 'tokenizer')} on {printable(compared.source)}", about)
        names = ["tokenizer", *(printable(row.name) for row in rows)]
        room = max(len(names[0]), min(widest(tuple(names)), options.max_width // _SHARE_OF_NAME))
        columns = [(cells := _cells(column, rows), widest(tuple(cells))) for column in _COLUMNS]
        for table in broken(columns, options.max_width - room, lambda column: column[1] + 1, lambda column: False):
            yield Text()
            for number, name in enumerate(names):
                usual = "" if number else "dim"
                figures = ((cells[number], width) for cells, width in table)
                row = [(cell, width, "bold green" if cell.endswith(_BEST) else usual) for cell, width in figures]
                line = aligned([(_end_of(name, room), room, usual), *row])
                line.rstrip()
                yield line
        yield Text()
        yield from _legend(compared)


def _cells(column: _Column, rows: Sequence[TokenizerQuality]) -> list[str]:
    """The heading and the figures, each with a place for the mark behind it where the column has one."""
    best = column.best(rows) if len(rows) > 1 else set()
    mark = [_BEST if number in best else " " if best else "" for number in range(len(rows))]
    heading = column.heading + (" " if best else "")
    return [heading, *(column.text(row) + sign for row, sign in zip(rows, mark, strict=True))]


def _end_of(name: str, room: int) -> str:
    """A path that is too long loses its beginning."""
    while cell_len(name) > room:
        name = f"…{name.removeprefix('…')[1:]}"
    return name


def _legend(compared: TokenizerComparison) -> Iterator[Text]:
    width = widest(tuple(column.heading for column in _COLUMNS))
    for column in _COLUMNS:
        yield Text.assemble((fit(column.heading, width), ""), ("  " + column.meaning, "dim"), no_wrap=True)
    best = f"{_BEST} best; of B/token, among those with nothing unknown; of MB/s, where no other comes near."
    rounds, size = plural(compared.rounds, "round"), short(compared.timed_bytes, "B")
    yield Text(f"\n{best} Speed is the median of {rounds} in turns over {size}, in batches on all cores.", style="dim")


def _leaders(values: Sequence[float]) -> set[int]:
    """Those with the highest figure; none where all have it."""
    leaders = {number for number, value in enumerate(values) if value == max(values)}
    return leaders if len(leaders) < len(values) else set()


def _shortest(rows: Sequence[TokenizerQuality]) -> set[int]:
    """To lose text is no way to shorten it: a tokenizer with unknown tokens competes with none."""
    return _leaders([0.0 if row.unknown else row.bytes_per_token for row in rows])


def _fastest(rows: Sequence[TokenizerQuality]) -> set[int]:
    """Where even its slow rounds are faster than the fast ones of all others."""
    first = max(range(len(rows)), key=lambda number: rows[number].megabytes_per_second.p50)
    others = [row.megabytes_per_second.p90 for number, row in enumerate(rows) if number != first]
    return {first} if all(other < rows[first].megabytes_per_second.p10 for other in others) else set()


def _share(heading: str, meaning: str, figure: str, best: int = 0) -> _Column:
    """A share by the name of its figure; the highest is `best`, or with -1 the lowest."""
    value = attrgetter(figure)
    return _Column(
        heading, meaning, lambda row: percent(value(row)), lambda rows: _leaders([best * value(row) for row in rows])
    )


_COLUMNS = (
    _Column("kind", "the algorithm", lambda row: printable(row.algorithm)),
    _Column("ids", "size of the vocabulary", lambda row: exact(row.vocab_size)),
    _Column("tokens", "that the text becomes", lambda row: short(row.tokens)),
    _Column("B/token", "bytes of UTF-8 a token", lambda row: f"{row.bytes_per_token:.2f}", _shortest),
    _Column("chars", "characters a token", lambda row: f"{row.characters_per_token:.2f}"),
    _Column("fertility", "tokens a word, words being cut at white space", lambda row: f"{row.fertility:.2f}"),
    _share("whole", "words (runs of letters and digits) that are not cut", "whole_words", 1),
    _share("singles", "tokens of one character, or of bytes of one", "single_characters"),
    _share("unknown", "tokens that stand for what cannot be spelled", "unknown_rate", -1),
    _share("used", "of the vocabulary, occurs in the text", "vocabulary_use"),
    _Column("Rényi", "efficiency: 1 where all tokens are equally frequent", lambda row: f"{row.renyi_efficiency:.3f}"),
    _share("exact", "documents that come back from their ids as they were", "round_trip", 1),
    _Column("MB/s", "megabytes encoded a second", lambda row: short(row.megabytes_per_second.p50), _fastest),
)
