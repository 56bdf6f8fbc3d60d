"""A positional encoding: its table, and how similar two positions are by their distance."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.positions import PositionsRecord
from tfcli.render.curve import Plot, Series
from tfcli.render.heatmap import HeatMap
from tfcli.render.safe import printable

_MAX_LINES = 32  # of half blocks: 64 positions


@dataclass(frozen=True)
class PositionsView:
    """The table as a map centred on 0 (positions down, dimensions across), then similarity by distance."""

    record: PositionsRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        base = f" · base {record.base:g}" if record.base is not None else ""
        yield Text(f"Positions · {printable(record.encoding)}{base}", style="bold")
        yield Text(f"{record.length} positions down × {record.d_model} dimensions across", style="dim")
        rows, columns = self._drawn(options.max_width)
        yield HeatMap(
            record.table[np.ix_(rows, columns)],
            "value, centred on 0",
            row_labels=tuple(map(str, rows)),
            column_numbers=tuple(columns),
            signed=True,
            wide=len(rows) <= _MAX_LINES,
        )
        if len(rows) < record.length or len(columns) < record.d_model:
            yield Text(
                f"drawn: {_every(rows, 'position')}; {_every(columns[::2], 'pair of dimensions', 2)}",
                style="dim",
            )
        yield Text()
        yield Text("Dot product of two positions by their distance", style="bold")
        yield Text("r_n · r_n+k of vectors scaled to length 1 (their cosine), mean over n", style="dim")
        distances = tuple(float(k) for k in range(len(record.similarity)))
        curve = Series("similarity", distances, tuple(record.similarity.tolist()), "cyan")
        yield Plot((curve,), "distance k")

    def _drawn(self, width: int) -> tuple[list[int], list[int]]:
        """The positions and dimensions that fit, every so many of them.

        Neighbouring dimensions are the sine and the cosine of one angle: pairs are left out whole. Keeping
        the largest of a block instead would draw little but the cosines near 1.
        """
        gutter = len(str(self.record.length - 1)) + 1
        row_step = -(-self.record.length // (2 * _MAX_LINES))
        pair_step = -(-self.record.d_model // max(2, (width - gutter) // 2 * 2))
        columns = [i for i in range(self.record.d_model) if i // 2 % pair_step == 0]
        return list(range(0, self.record.length, row_step)), columns


def _every(numbers: list[int], noun: str, unit: int = 1) -> str:
    step = (numbers[1] - numbers[0]) // unit if len(numbers) > 1 else 1
    return f"every {noun}" if step == 1 else f"one {noun} of {step}"
