"""Texts as vectors: how alike they are, as numbers on colour."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from tfcli.records.embeddings import EmbeddingsRecord
from tfcli.render.as_json import to_json
from tfcli.render.brush import Brush, brush_for
from tfcli.render.cells import labelled_row, scale_bar
from tfcli.render.colors import WEIGHTS, levels
from tfcli.render.heatmap import HeatMap
from tfcli.render.numbers import plural
from tfcli.render.safe import fit, printable, widest
from tfcli.render.table_csv import Table

_CELL = 6
_MOST_TEXTS = 24
"""Texts of which each pair is written as a number."""
_POOLS = {
    "mean": "the mean over a text's tokens",
    "first": "a text's first token",
    "last": "a text's last token",
}


@dataclass(frozen=True)
class EmbeddingsView:
    """The cosine of every pair of texts, as a table while it fits, else as a map; of one text the vector itself."""

    record: EmbeddingsRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        count, size = record.vectors.shape
        yield Text(f"{plural(count, 'text')} as vectors · {printable(record.run)}", style="bold")
        layer = "the last layer, behind its norm" if record.layer is None else f"layer {record.layer}"
        side = "the encoder's " if record.architecture == "encoder-decoder" else ""
        of = f"{side}{layer}".replace("encoder's the", "encoder's")
        yield Text(f"{_POOLS[record.pool]}, out of {of}; {size} dimensions, not normalised", style="dim")
        if count == 1:
            yield from self._single()
            return
        labels = tuple(printable(text) for text in record.texts)
        if count > _MOST_TEXTS or options.max_width < 12 + count * _CELL:
            yield HeatMap(record.cosines(), "cosine", labels, tuple(str(n + 1) for n in range(count)))
        else:
            yield from _table(record.cosines(), labels, brush_for(console, WEIGHTS), options.max_width)
        yield Text(_closest(record), style="dim")

    def _single(self) -> Iterator[Text | HeatMap]:
        vector = self.record.vectors
        tokens = plural(int(self.record.tokens[0]), "token")
        yield Text(f"{printable(self.record.texts[0])}: {tokens}, length {np.linalg.norm(vector):.3g}")
        yield HeatMap(vector, "its numbers, in order of their dimension", signed=True, wide=False)
        yield Text("Give further texts to see how alike they are; --json writes all numbers.", style="dim")


def _table(cosines: NDArray[np.float32], labels: tuple[str, ...], brush: Brush, width: int) -> Iterator[Segment | Text]:
    gutter = min(widest(labels), width - len(labels) * _CELL - 5)
    low = min(0.0, float(cosines.min()))
    grid = levels(cosines, low, 1.0)
    yield Text(" " * (gutter + 4) + "".join(f"{number:>{_CELL}}" for number in range(1, len(labels) + 1)), style="dim")
    for number, label in enumerate(labels):
        texts = [f"{cosine:.2f} " for cosine in cosines[number].tolist()]
        name = f"{number + 1:>2} {fit(label, gutter)} "
        yield from labelled_row(name, texts, grid[number].tolist(), [_CELL] * len(texts), brush)
        yield Segment.line()
    yield from scale_bar(f"{low:.3g}", "1", brush)
    yield Segment("  cosine u·v / ‖u‖‖v‖\n")
    yield Text("1: two vectors point the same way; 0: they are at right angles.", style="dim")


def _closest(record: EmbeddingsRecord) -> str:
    cosines = np.array(record.cosines())
    np.fill_diagonal(cosines, -np.inf)
    first, second = (int(place) for place in np.unravel_index(cosines.argmax(), cosines.shape))
    return f"Closest: {first + 1} and {second + 1}, cosine {cosines[first, second]:.3f}."


def embedding_lines(record: EmbeddingsRecord) -> Iterator[dict[str, Any]]:
    """A text with its vector each, as JSON values."""
    vectors = to_json(record)["vectors"]
    for text, vector in zip(record.texts, vectors, strict=True):
        yield {"text": text, "vector": vector}


def embeddings_table(record: EmbeddingsRecord) -> Table:
    """A row a text: the text, then its vector."""
    columns = ("text", *(f"v{number}" for number in range(record.vectors.shape[1])))
    rows = zip(record.texts, record.vectors, strict=True)
    return Table(columns, ((text, *map(str, vector)) for text, vector in rows))
