"""Where each query looks most, as a list: what a person would read off the table."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.records.attention import AttentionRecord
from tfcli.render.attention_text import labels, title
from tfcli.render.numbers import weight
from tfcli.render.safe import fit, widest


@dataclass(frozen=True)
class StrongestKeys:
    """A line a query: its keys with the largest weights, the largest first."""

    record: AttentionRecord
    layer: int
    head: int
    count: int = 3

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        queries, keys = labels(self.record.query_tokens), labels(self.record.key_tokens)
        query_width, key_width = min(widest(queries), 20), min(widest(keys), 20)
        digits = len(str(len(keys) - 1))
        yield Text(f"{title(self.record, self.layer, self.head)}, strongest keys", style="bold")
        for number, (query, row) in enumerate(zip(queries, self.record.weights[self.layer, self.head], strict=True)):
            yield Segment(f"{number:>{digits}} {fit(query, query_width)}  → ")
            for key in np.argsort(-row, kind="stable")[: self.count]:
                if row[key] > 0.0:
                    yield Segment(f"  {weight(float(row[key]))} ", Style(bold=True))
                    yield Segment(f"{key:>{digits}} {fit(keys[key], key_width)}")
            yield Segment.line()
