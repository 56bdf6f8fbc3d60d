"""One query of a head as bars: where a word looks, and what is predicted behind it."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.attention import AttentionRecord
from tfcli.records.generation import Candidate
from tfcli.render.attention.words import labels, look_at, title, token_at
from tfcli.render.bars import bar
from tfcli.render.numbers import percent, plural
from tfcli.render.predictions.candidates import candidate_bars
from tfcli.render.safe import fit, shortened, widest

_MOST = 20
_LONGEST_LABEL, _LONGEST_BAR = 24, 40


@dataclass(frozen=True)
class AttentionRow:
    """A line a key, in the order of the text; of many, the strongest.

    Args:
        record: has one query. predicted: the likeliest tokens behind it; none where it predicts nothing.
    """

    record: AttentionRecord
    layer: int
    head: int
    predicted: tuple[Candidate, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        query = token_at(record.query_tokens, record.rows, 0)
        yield Text(title(record, self.layer, self.head), style="bold")
        weights, hidden = record.weights[self.layer, self.head, 0], record.hidden(self.layer, self.head)[0]
        seen = np.flatnonzero(~hidden)
        shown = np.sort(seen[np.argsort(-weights[seen], kind="stable")[:_MOST]])
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
        if found := look_at(record, self.layer, self.head):
            yield Text(found)
        if self.predicted:
            yield Text("")
            yield Text(f"Predicted behind {query}", style="bold")
            yield from candidate_bars(self.predicted, None, options.max_width, ascii_only=options.ascii_only)
