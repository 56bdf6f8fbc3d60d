"""A text as a model reads it: coloured by token, and a row a token."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.table import Table as Grid
from rich.text import Text

from tfcli.records.tokens import TokenRow, TokensRecord
from tfcli.render.as_json import to_json
from tfcli.render.bars import bar
from tfcli.render.brush import has_colors
from tfcli.render.facts import Fact, Facts
from tfcli.render.numbers import exact, plural
from tfcli.render.safe import fit, printable, token_label, widest
from tfcli.render.table_csv import Table

_PAPERS = ("#1f4e79", "#5b3a72")
_SPECIAL, _UNKNOWN = "#4d4d4d", "#a11d1d"
_LONGEST_LABEL, _LONGEST_BAR = 20, 24
_BARS_FROM = 72
"""Columns of a terminal from which on lengths have bars."""


@dataclass(frozen=True)
class TokensView:
    """Blocks of two colours in turn (without colour: between bars); special tokens grey, unknown ones red."""

    record: TokensRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        kind = f"{record.algorithm}, {exact(record.vocab_size)} tokens"
        yield Text(f"From text to vectors · {printable(record.run)} · {kind}", style="bold")
        yield from _painted(record.tokens, has_colors(console), options.max_width)
        yield Text()
        yield _table(record, options.max_width, options.ascii_only)
        joined = any(row.position_norm is not None for row in record.tokens)
        positions = "‖p‖ of the vector its position adds" if joined else "positions act inside attention, not here"
        scaled = "" if record.scale == 1 else f" times {record.scale:.4g}"
        yield Text(f"‖e‖: length of the token's row of E, {record.d_model} numbers{scaled}; {positions}", style="dim")
        yield from _figures(record)


def _painted(rows: tuple[TokenRow, ...], in_color: bool, width: int) -> Iterator[Text]:
    """The text in lines of at most `width` cells; a line end in it ends its line."""
    line, turn = Text(no_wrap=True), count()
    for row in rows:
        label = token_label(row.token)
        label = fit(label, width - 1).rstrip() if widest((label,)) >= width else label
        piece = Text(label, _style(row, next(turn))) if in_color else Text(f"{label}│")
        if line.cell_len + piece.cell_len > width:
            yield line
            line = Text(no_wrap=True)
        line.append_text(piece)
        if row.token.endswith("\n"):
            yield line
            line = Text(no_wrap=True)
    if line:
        yield line


def _style(row: TokenRow, turn: int) -> Style:
    papers = {"special": _SPECIAL, "unknown": _UNKNOWN}
    return Style(color="#ffffff", bgcolor=papers.get(row.role, _PAPERS[turn % 2]))


def _table(record: TokensRecord, width: int, ascii_only: bool) -> Grid:
    joined = any(row.position_norm is not None for row in record.tokens)
    with_bars = width >= _BARS_FROM
    label = min(_LONGEST_LABEL, max(5, widest(tuple(token_label(row.token) for row in record.tokens))))
    longest = max(row.norm for row in record.tokens)
    room = max(4, min(_LONGEST_BAR, width - label - (62 if joined else 54)))
    grid = Grid.grid(padding=(0, 2, 0, 0))
    heads = ["pos", "id", "token", "characters", "bytes", "kind", "‖e‖", *([""] if with_bars else [])]
    for head in heads + (["‖p‖"] if joined else []):
        left = head in ("token", "kind", "")
        grid.add_column(justify="left" if left else "right", no_wrap=True)
    grid.add_row(*(Text(head, "dim") for head in heads + (["‖p‖"] if joined else [])))
    for row in record.tokens:
        share = row.norm / longest if longest else 0.0
        drawn = bar(share, room, ascii_only=ascii_only)
        cells = [
            Text(str(row.position), "dim"),
            Text(str(row.token_id)),
            Text(fit(token_label(row.token), label), "" if row.role == "text" else "bold"),
            Text("" if row.first is None else f"{row.first}–{row.end}"),
            Text(str(row.bytes) if row.bytes else ""),
            Text(_kind(row, record.text), "red" if row.role == "unknown" else "dim"),
            Text(f"{row.norm:.3g}"),
            *([Text(drawn.ljust(room), "cyan")] if with_bars else []),
            *([Text(f"{row.position_norm:.3g}")] if row.position_norm is not None else []),
        ]
        grid.add_row(*cells)
    return grid


def _kind(row: TokenRow, text: str) -> str:
    if row.role == "unknown" and row.first is not None:
        return fit(f"unknown: {printable(text[row.first : row.end])}", 18).rstrip()
    pieces = plural(row.pieces, "piece") if row.pieces > 1 else ""
    return {"text": pieces, "special": "special", "unknown": "unknown"}[row.role]


def _figures(record: TokensRecord) -> Iterator[Facts]:
    of_text = record.of_text
    fertility = "" if record.fertility is None else f"{record.fertility:.2f} tokens a word (fertility)"
    carried = "" if record.bytes_per_token is None else f"{record.bytes_per_token:.2f} bytes a token"
    special = record.read - of_text
    yield Facts(
        "The same text in other pieces",
        [
            Fact(name, exact(length), note)
            for name, length, note in (
                ("words", record.words, "between white space; each would need a row of E"),
                ("tokens", of_text, ", ".join(filter(None, (fertility, carried)))),
                ("characters", record.characters, ""),
                ("bytes", record.bytes, "UTF-8; 256 rows of E would do"),
            )
        ],
    )
    read = record.read
    yield Facts(
        f"{exact(read)} of {plural(record.context, 'position')} {'is' if read == 1 else 'are'} read, "
        f"{special} special: each head compares {plural(read**2, 'pair')}",
        [],
    )


def tokens_json(record: TokensRecord) -> dict[str, Any]:
    """The record and its rates."""
    rates = {"fertility": record.fertility, "bytes_per_token": record.bytes_per_token}
    return {**to_json(record), **rates}


def tokens_table(record: TokensRecord) -> Table:
    """A row a token."""
    columns = ("position", "token_id", "token", "role", "first", "end", "bytes", "norm", "position_norm", "pieces")
    return Table(columns, ([getattr(row, column) for column in columns] for row in record.tokens))
