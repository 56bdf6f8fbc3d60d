"""What an attention picture shows, before it is drawn: numbers with labels, the same for a terminal and for SVG."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from tfcli.records.attention import AttentionDifference, AttentionRecord
from tfcli.render.attention.words import KIND_NAMES, SIDES, head_sums, labels, title
from tfcli.render.numbers import weight
from tfcli.render.pooling import max_pool
from tfcli.render.safe import printable


@dataclass(frozen=True)
class Matrix:
    """Numbers of every query (row) and key (column).

    Args:
        values: NaN is no value, which `empty` explains.
        queries, keys: labels, safe to print. rows, columns: their positions in the text.
        signed: centred on 0.
        sums: one a row; () for none.
        kept: so many first keys stand apart and are never made smaller.
        one_text: whether queries and keys are tokens of the same text.

    Shape:
        values: (T, S)
    """

    title: str
    note: str
    values: NDArray[np.float32]
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    meaning: str
    empty: str
    signed: bool = False
    sums: tuple[float, ...] = ()
    kept: int = 0
    one_text: bool = True

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The lowest and the highest value of the colours."""
        if np.isnan(self.values).all():
            return 0.0, 0.0
        if not self.signed:
            return 0.0, float(np.nanmax(self.values))
        furthest = float(np.nanmax(np.abs(self.values)))
        return -furthest, furthest

    @property
    def cropped(self) -> bool:
        """Whether positions are not simply 0, 1, 2 …, so that they are written."""
        return self.rows != tuple(range(len(self.rows))) or self.columns != tuple(range(len(self.columns)))

    def text(self, value: float) -> str:
        """A value in a cell: a weight in three cells, a signed number in five."""
        if not self.signed:
            return weight(value)
        decimals = 2 if self.scale[1] < 9.995 else 1 if self.scale[1] < 99.95 else 0
        return f"{value:+.{decimals}f}"

    def heading(self) -> Iterator[Text]:
        """The lines above the picture."""
        if self.title:
            yield Text(self.title, style="bold")
        if self.note:
            yield Text(self.note, style="dim")


def weights_matrix(record: AttentionRecord, layer: int, head: int, kept: int = 0) -> Matrix:
    """One head's weights."""
    weights = record.weights[layer, head]
    sides = SIDES[record.kind]
    note = f"{sides}; {head_sums(record, layer, head)}"
    return Matrix(
        title(record, layer, head),
        f"{note}\n{record.formula}" if record.names and record.formula else note,
        record.visible_weights(layer, head),
        labels(record.query_tokens),
        labels(record.key_tokens),
        record.rows,
        record.columns,
        "attention weight",
        "exactly 0, masked",
        sums=tuple(weights.sum(axis=1, dtype=np.float64).tolist()),
        kept=_kept(kept, record.columns),
        one_text=record.kind != "cross",
    )


def scores_matrix(record: AttentionRecord, layer: int, head: int, kept: int = 0) -> Matrix:
    """One head's scores; those of masked cells, which the softmax never sees, are left out."""
    assert record.scores is not None
    return _before_softmax(record, layer, head, record.scores, "score", kept)


def bias_matrix(record: AttentionRecord, layer: int, head: int, kept: int = 0) -> Matrix:
    """What positions add to one head's scores."""
    assert record.bias is not None
    return _before_softmax(record, layer, head, record.bias, "position bias", kept)


def difference_matrix(difference: AttentionDifference, kept: int = 0) -> Matrix:
    """What the first side looks at more (above 0) and less (below 0) than the second."""
    first, second = (printable(name) for name in difference.names)
    where = f" · {difference.place}" if difference.place else ""
    return Matrix(
        f"Difference of attention weights · {KIND_NAMES[difference.kind]}{where}",
        f"{first} − {second}\n{SIDES[difference.kind]}; above 0: the first looks more, below 0: the second does",
        difference.visible_differences,
        paired(difference.query_tokens, difference.other_query_tokens),
        paired(difference.key_tokens, difference.other_key_tokens),
        difference.query_positions,
        difference.key_positions,
        "difference of weights",
        "exactly 0 on both sides, masked",
        signed=True,
        kept=_kept(kept, difference.key_positions),
        one_text=difference.kind != "cross",
    )


def paired(tokens: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """A label a place, with both tokens where they differ."""
    both = zip(labels(tokens), labels(others), strict=True)
    return tuple(one if one == other else f"{one}|{other}" for one, other in both)


def _before_softmax(
    record: AttentionRecord, layer: int, head: int, values: NDArray[np.float32], meaning: str, kept: int
) -> Matrix:
    return Matrix(
        "",
        "",
        np.where(record.hidden(layer, head), np.float32(np.nan), values[layer, head]),
        labels(record.query_tokens),
        labels(record.key_tokens),
        record.rows,
        record.columns,
        meaning,
        "masked: −∞ for the softmax",
        signed=True,
        kept=_kept(kept, record.columns),
        one_text=record.kind != "cross",
    )


def _kept(kept: int, columns: tuple[int, ...]) -> int:
    """Those of the first keys that are in sight; 0 where they are all there is."""
    return min(kept, len(columns)) if kept < len(columns) else 0


def pooled(matrix: Matrix, factor: int) -> Matrix:
    """Blocks of `factor` × `factor` as the value furthest from 0, under the first label of each; kept keys stay."""
    if factor == 1:
        return matrix
    kept = matrix.kept
    rows = slice(None, None, factor)
    columns = [*range(kept), *range(kept, len(matrix.keys), factor)]
    first = max_pool(matrix.values[:, :kept], factor, 1)
    rest = max_pool(matrix.values[:, kept:], factor, factor)
    total, drawn = matrix.values.shape, (len(rest), len(columns))
    apart = f"; the first {kept} keys apart" if kept else ""
    note = (
        f"{total[0]} × {total[1]} drawn as {drawn[0]} × {drawn[1]}: a cell is the furthest from 0 of its block{apart}"
    )
    return replace(
        matrix,
        note=f"{matrix.note}\n{note}",
        values=np.concatenate([first, rest], axis=1),
        queries=matrix.queries[rows],
        keys=tuple(matrix.keys[column] for column in columns),
        rows=matrix.rows[rows],
        columns=tuple(matrix.columns[column] for column in columns),
        sums=matrix.sums[rows],
    )
