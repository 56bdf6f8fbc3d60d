"""One query of a head as bars: where a word looks, and what is predicted behind it."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.attention import AttentionRecord
from tfcli.records.generation import Candidate
from tfcli.render.attention.table import AttentionTable
from tfcli.render.attention.words import labels, look_at, strongest, title, token_at
from tfcli.render.bars import bar
from tfcli.render.numbers import percent, plural
from tfcli.render.predictions.candidates import candidate_bars
from tfcli.render.safe import fit, shortened, widest

_AROUND = 17
"""Lines of a screen that a story and the commands behind a picture take."""
_LONGEST_LABEL, _LONGEST_BAR = 24, 40


@dataclass(frozen=True)
class AttentionRow:
    """A line a key, in the order of the text; of many, the strongest.

    Args:
        predicted: the likeliest tokens behind it; none where it predicts nothing.
        row: the query. most: so many keys at most.
    """

    record: AttentionRecord
    layer: int
    head: int
    predicted: tuple[Candidate, ...] = ()
    row: int = 0
    most: int = 20

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        query = token_at(record.query_tokens, record.rows, self.row)
        yield Text(title(record, self.layer, self.head), style="bold")
        weights, hidden = (
            record.weights[self.layer, self.head, self.row],
            record.hidden(self.layer, self.head)[self.row],
        )
        seen = np.flatnonzero(~hidden)
        shown = np.sort(seen[np.argsort(-weights[seen], kind="stable")[: self.most]])
        yield Text(f"where {query} looks, of {plural(len(seen), 'key')}; all weights sum to 1", style="dim")
        names = tuple(shortened(label, _LONGEST_LABEL) for label in labels(record.key_tokens))
        width = widest(tuple(names[key] for key in shown))
        room = max(4, min(_LONGEST_BAR, options.max_width - width - 17))
        for key in shown.tolist():
            line = Text(f"  {fit(names[key], width)} {record.columns[key]:>4}  {percent(float(weights[key])):>7}  ")
            yield line.append(bar(float(weights[key]), room, ascii_only=options.ascii_only), "cyan")
        if rest := len(seen) - len(shown):
            others = float(weights[seen].sum() - weights[shown].sum())
            yield Text(f"  {rest} others, the weaker ones: {percent(others)}", style="dim")
        if len(record.rows) == 1 and (found := look_at(record, self.layer, self.head)):
            yield Text(found)
        if self.predicted:
            yield Text("")
            yield Text(f"Predicted behind {query}", style="bold")
            yield from candidate_bars(self.predicted, None, options.max_width, ascii_only=options.ascii_only)


@dataclass(frozen=True)
class AttentionEnding:
    """The last picture of a recipe: the table, or, where a screen is too low for it, one word's row: the last one's,
    of cross-attention the one that finds most."""

    record: AttentionRecord
    on_screen: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, place = self.record, self.record.focus
        table, room = AttentionTable(record, *place), console.size.height - _AROUND
        if not self.on_screen or len(console.render_lines(table, options, pad=False)) <= room:
            yield table
            return
        words = [at for at, word in zip(record.rows, record.query_words, strict=True) if word.kind == "word"]
        found = strongest(record, *place) if record.kind == "cross" else None
        row = found[0] if found else max(words, default=0)
        yield AttentionRow(record, *place, row=row, most=max(3, room - 3))
