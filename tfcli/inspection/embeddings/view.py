"""Embeddings as tables: a text coloured by token, nearest neighbours, and how alike whole texts are."""

import math
from collections.abc import Iterator
from itertools import cycle
from string import ascii_letters
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import has_colors
from tfcli.draw.curve import Plot, Series
from tfcli.draw.heatmap import HeatMap, NumberMap
from tfcli.draw.numbers import exact, percent, plural
from tfcli.draw.safe import broken, fit, printable, shortened, token_label, widest
from tfcli.draw.tables import CsvTable, Fact, Facts, bar, columns, dim, heading, to_json
from tfcli.inspection.embeddings import (
    Components,
    EmbeddingsRecord,
    NeighboursRecord,
    TokenNeighbours,
    TokenRow,
    TokensRecord,
)

_TURNS = ("#1f4e79", "#5b3a72")
_PAPERS = {"special": "#4d4d4d", "unknown": "#a11d1d"}
_LONGEST_LABEL, _LONGEST_BAR = 20, 24
_BARS_FROM = 72  # columns of a terminal from which on lengths have bars


class TokensView(View[TokensRecord]):
    """Blocks of two colours in turn (without colour: between bars); special tokens grey, unknown ones red."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        kind = f"{record.algorithm}, {exact(record.vocab_size)} tokens"
        yield from heading(f"From text to vectors · {printable(record.run)} · {kind}")
        yield from _painted(record.tokens, has_colors(console), options.max_width)
        yield Text()
        yield _table(record, options.max_width, options.ascii_only)
        joined = any(row.position_norm is not None for row in record.tokens)
        positions = "‖p‖ of the vector its position adds" if joined else "positions act inside attention, not here"
        scaled = "" if record.scale == 1 else f" times {record.scale:.4g}"
        yield from dim(f"‖e‖: length of the token's row of E, {record.d_model} numbers{scaled}; {positions}")
        yield from _figures(record)


def _painted(rows: tuple[TokenRow, ...], in_color: bool, width: int) -> Iterator[Text]:
    """The text in lines of at most `width` cells; a line end in it ends its line."""
    pieces = []
    for turn, row in enumerate(rows):
        label = shortened(token_label(row.token), width - 1)
        style = Style(color="#ffffff", bgcolor=_PAPERS.get(row.role, _TURNS[turn % 2]))
        pieces.append((Text(label, style) if in_color else Text(f"{label}│"), row.token))
    for line in broken(pieces, width, lambda one: one[0].cell_len - 1, lambda one: one[1].endswith("\n")):
        yield Text(no_wrap=True).join(piece for piece, _ in line)


def _table(record: TokensRecord, width: int, ascii_only: bool) -> Table:
    joined = any(row.position_norm is not None for row in record.tokens)
    with_bars = width >= _BARS_FROM
    label = min(_LONGEST_LABEL, max(5, widest(tuple(token_label(row.token) for row in record.tokens))))
    longest = max(row.norm for row in record.tokens) or 1.0
    room = max(4, min(_LONGEST_BAR, width - label - (62 if joined else 54)))
    heads = ["pos", "id", "token", "characters", "bytes", "kind", "‖e‖", *[""] * with_bars, *["‖p‖"] * joined]
    table = columns("rrlrrlr" + "l" * with_bars + "r" * joined, *heads)
    for row in record.tokens:
        place, size = "" if row.first is None else f"{row.first}–{row.end}", str(row.bytes or "")
        name = Text(fit(token_label(row.token), label), "" if row.role == "text" else "bold")
        kind = Text(_kind(row, record.text), "red" if row.role == "unknown" else "dim")
        drawn = [Text(bar(row.norm / longest, room, ascii_only=ascii_only).ljust(room), "cyan")] * with_bars
        norms: list[Text | str] = [f"{row.norm:.3g}", *drawn]
        norms += [] if row.position_norm is None else [f"{row.position_norm:.3g}"]
        table.add_row(Text(str(row.position), "dim"), str(row.token_id), name, place, size, kind, *norms)
    return table


def _kind(row: TokenRow, text: str) -> str:
    if row.role == "unknown" and row.first is not None:
        return fit(f"unknown: {printable(text[row.first : row.end])}", 18).rstrip()
    pieces = plural(row.pieces, "piece") if row.pieces > 1 else ""
    return {"text": pieces, "special": "special", "unknown": "unknown"}[row.role]


def _figures(record: TokensRecord) -> Iterator[Facts | Text]:
    rates = ((record.fertility, "tokens a word (fertility)"), (record.bytes_per_token, "bytes a token"))
    facts = [
        Fact("words", exact(record.words), "between white space; each would need a row of E"),
        Fact("tokens", exact(record.of_text), ", ".join(f"{rate:.2f} {of}" for rate, of in rates if rate is not None)),
        Fact("characters", exact(record.characters)),
        Fact("bytes", exact(record.bytes), "UTF-8; 256 rows of E would do"),
    ]
    yield Facts("The same text in other pieces", facts)
    read, verb = record.read, "is" if record.read == 1 else "are"
    special = f"{read - record.of_text} special: each head compares {plural(read**2, 'pair')}"
    yield from heading(f"{exact(read)} of {plural(record.context, 'position')} {verb} read, {special}")


def tokens_table(record: TokensRecord) -> CsvTable:
    """A row a token."""
    names = ("position", "token_id", "token", "role", "first", "end", "bytes", "norm", "position_norm", "pieces")
    return CsvTable.of(record.tokens, *names)


_LONGEST_NEIGHBOUR, _LONGEST_COSINE = 24, 40
_AROUND = 4 + 2 + 2 + 6 + 2 + 6  # rank, blanks, cosine, length


class NeighboursView(View[NeighboursRecord]):
    """For each token those nearest to it; bars go from cosine 0 to 1."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        of_head = "E, which the head shares" if record.tied else "E" if record.matrix == "input" else "W of the head"
        about = f"cos(a, b) = a·b / ‖a‖‖b‖ between rows of {exact(record.vocabulary)} tokens × {record.d_model}"
        yield from heading(f"Nearest tokens · {printable(record.run)} · {of_head}", about)
        names = tuple(token_label(one.token) for token in record.tokens for one in token.neighbours)
        label = min(_LONGEST_NEIGHBOUR, widest(names))
        width = max(3, min(_LONGEST_COSINE, options.max_width - label - _AROUND))
        for token in record.tokens:
            yield from _one(token, label, width, options.ascii_only)
        yield from dim(
            f"Mean cosine of two tokens {record.mean_cosine:.2f}, mean length {record.mean_norm:.3g}. Directions drawn "
            f"at random in {record.d_model} dimensions lie within ±{2 / math.sqrt(record.d_model):.2f} (2/√D) 19 times "
            "out of 20: what is well above that was learned."
        )


def _one(token: TokenNeighbours, label: int, width: int, ascii_only: bool) -> Iterator[Text | Table]:
    name = token_label(token.token)
    yield Text.assemble((name, "bold"), (f"  id {token.token_id}  length {token.norm:.3g}", "dim"))
    table = columns("rllrr", "", fit("token", label), "cosine", "", "length")
    for rank, one in enumerate(token.neighbours, start=1):
        drawn = Text(bar(one.cosine, width, ascii_only=ascii_only).ljust(width), "cyan")
        near, norm = Text(fit(token_label(one.token), label)), Text(f"{one.norm:.3g}", "dim")
        table.add_row(Text(f"{rank:>2}", "dim"), near, drawn, f"{one.cosine:.2f}", norm)
    yield table


def neighbours_table(record: NeighboursRecord) -> CsvTable:
    """A row a neighbour."""
    rows = (
        (token.token, token.token_id, rank, *vars(one).values())
        for token in record.tokens
        for rank, one in enumerate(token.neighbours, start=1)
    )
    return CsvTable(("token", "token_id", "rank", "neighbour", "neighbour_id", "cosine", "norm"), rows)


_POOLS = {"mean": "the mean over a text's tokens", "first": "a text's first token", "last": "a text's last token"}


class EmbeddingsView(View[EmbeddingsRecord]):
    """The cosine of every pair of texts, as a table while it fits, else as a map; of one text the vector itself."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        count, size = record.vectors.shape
        layer = "the last layer, behind its norm" if record.layer is None else f"layer {record.layer}"
        if record.architecture == "encoder-decoder":
            layer = f"the encoder's {layer.removeprefix('the ')}"
        about = f"{_POOLS[record.pool]}, out of {layer}; {size} dimensions, not normalised"
        yield from heading(f"{plural(count, 'text')} as vectors · {printable(record.run)}", about)
        if count == 1:
            tokens = plural(int(record.tokens[0]), "token")
            yield Text(f"{printable(record.texts[0])}: {tokens}, length {np.linalg.norm(record.vectors):.3g}")
            yield HeatMap(record.vectors, "its numbers, in order of their dimension", signed=True, wide=False)
            yield from dim("Give further texts to see how alike they are; --json writes all numbers.")
            return
        cosines, numbers = record.cosines(), tuple(str(n + 1) for n in range(count))
        room, named = options.max_width // 3, zip(numbers, record.texts, strict=True)
        labels = tuple(f"{n:>2} {shortened(printable(text), room)}" for n, text in named)
        yield NumberMap(cosines, "cosine u·v / ‖u‖‖v‖", labels, numbers)
        apart = cosines - np.where(np.eye(count), np.inf, 0)
        first, second = np.unravel_index(apart.argmax(), apart.shape)
        closest = f"Closest: {first + 1} and {second + 1}, cosine {cosines[first, second]:.3f}."
        yield from dim("cosine u·v / ‖u‖‖v‖; 1: one direction; 0: at right angles", closest)


def embedding_lines(record: EmbeddingsRecord) -> Iterator[dict[str, Any]]:
    """A text with its vector each, as JSON values."""
    for text, vector in zip(record.texts, to_json(record)["vectors"], strict=True):
        yield {"text": text, "vector": vector}


def embeddings_table(record: EmbeddingsRecord) -> CsvTable:
    """A row a text: the text, then its vector."""
    names = ("text", *(f"v{number}" for number in range(record.vectors.shape[1])))
    rows = zip(record.texts, record.vectors, strict=True)
    return CsvTable(names, ((text, *map(str, vector)) for text, vector in rows))


_STYLES = ("cyan", "yellow", "magenta", "green", "red", "blue")
_MAP = 36  # columns of a terminal


class ComponentsView(View[Components]):
    """A map a layer, side by side where there is room; each with what its vectors tell of the labels."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r, labels = self.record, tuple(dict.fromkeys(self.record.labels))
        yield from heading(f"Principal components · {printable(r.run)}", printable(r.what), "")
        initials = "".join(label[:1] for label in labels)
        letters = initials if initials.isalnum() and len({*initials}) == len(labels) else ascii_letters
        drawn = []
        for number, (name, points) in enumerate(zip(r.maps, r.points, strict=True)):
            first, second = map(percent, r.shares[number].tolist())
            told = (
                f"\nheld out {percent(r.probe.layers[number].accuracy)}: {r.probe.layers[number].verdict}"
                if r.probe
                else ""
            )
            series = list[Series]()
            for label, letter, style in zip(labels, letters, cycle(_STYLES), strict=False):
                across, up = points[[one == label for one in r.labels]].T
                series.append(Series(token_label(label), across, up, style, marker=letter))
            drawn.append(Group(Text(f"{name}, {first} across, {second} up{told}"), Plot(tuple(series), "", 10)))
        yield Columns(drawn, width=_MAP) if len(drawn) > 1 else drawn[0]
        probed = "held out: places whose label a linear probe tells" if r.probe else "no measure of what is apart"
        yield from dim(f"axes: shares of the variance · {probed}")


def components_table(record: Components) -> CsvTable:
    """A row a point of each map."""
    both = zip(record.maps, record.points, strict=True)
    rows = [(name, label, *point) for name, points in both for label, point in zip(record.labels, points, strict=True)]
    return CsvTable(("map", "label", "first", "second"), rows)
