"""What an attention picture shows, before it is drawn: numbers with labels, the same for a terminal and for SVG."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.draw.colors import SIGNED, WEIGHTS, Brush, brush_for, levels
from tfcli.draw.heatmap import HeatMap, beside, labelled_row, legend, max_pool, scale_bar, vertical
from tfcli.draw.numbers import weight
from tfcli.draw.safe import fit, printable, shortened, token_label, widest
from tfcli.inspection.attention import AttentionDifference, AttentionKind, AttentionRecord

_LONGEST = 24

KIND_NAMES: dict[AttentionKind, str] = {
    "encoder_self": "encoder self-attention",
    "decoder_self": "decoder self-attention",
    "cross": "cross-attention",
}

SIDES: dict[AttentionKind, str] = {
    "encoder_self": "rows: queries, columns: keys, both the text",
    "decoder_self": "rows: queries, columns: keys, both the text so far",
    "cross": "rows: queries (target), columns: keys (source)",
}


def title(record: AttentionRecord, layer: int, head: int) -> str:
    """What is shown, as one line."""
    return f"Attention weights · {KIND_NAMES[record.kind]} · {record.place(layer, head)}"


def labels(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Tokens that are safe to print on one line."""
    return tuple(token_label(token) for token in tokens)


def row_sums(weights: NDArray[np.float32]) -> str:
    """What the rows sum to, as measured.

    Shape: weights (T, S).
    """
    sums = weights.sum(axis=1, dtype=np.float64)
    if np.allclose(sums, 1.0, atol=5e-3):
        return "each row sums to 1"
    return f"rows sum to {sums.min():.2f} … {sums.max():.2f}"


def head_sums(record: AttentionRecord, layer: int, head: int) -> str:
    """As `row_sums`, of one head, and of what of it is shown."""
    part = " in the columns shown" if record.key_positions else ""
    return row_sums(record.weights[layer, head]) + part


HABITS = "beyond the first word, punctuation, itself and its neighbours"


def strongest(record: AttentionRecord, layer: int, head: int) -> tuple[int, int] | None:
    """The row and the column of the strongest weight that says something of the text; None where there is none."""
    telling = record.telling
    if record.kind == "cross":
        telling[:, np.array(record.columns) == 0] = False
    weights = record.weights[layer, head] * telling
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    return (int(row), int(column)) if weights.any() else None


def look_at(record: AttentionRecord, layer: int, head: int) -> str:
    """What `strongest` finds in words; "" where that is nothing."""
    if (found := strongest(record, layer, head)) is None:
        return ""
    row, column = found
    edge = f"{token_at(record.query_tokens, record.rows, row)} → {token_at(record.key_tokens, record.columns, column)}"
    where = "" if record.kind == "cross" else f", the strongest {HABITS}"
    value = float(record.weights[layer, head, row, column])
    return f"see {edge}: {weight(value) if value >= 0.005 else f'{value:.1g}'}{where}"


def token_at(tokens: tuple[str, ...], positions: Sequence[int], index: int) -> str:
    """A token's label, at most 24 cells wide, with its position."""
    return f"{shortened(token_label(tokens[index]), _LONGEST)} ({positions[index]})"


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


_SUM = 5
_DIM = Style(dim=True)
_GAP = "│ "
_MOST_NAMES = 200  # keys that are listed where a ruler has no room for labels


@dataclass(frozen=True)
class Columns:
    """How wide the numbers stand, and the lines above them."""

    widths: list[int]
    header: list[str]


@dataclass(frozen=True)
class Grid:
    """Queries down, keys across: numbers while they fit, else a map."""

    matrix: Matrix

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush = brush_for(console, SIGNED if self.matrix.signed else WEIGHTS)
        columns = self.columns(options.max_width)
        if columns is None:
            yield from self._map(options.max_width)
        else:
            yield from self._numbers(columns, self._gutter(options.max_width), brush, options.max_width)

    def columns(self, width: int) -> Columns | None:
        """Wide enough for every label; else narrow, with labels downwards; None when numbers do not fit."""
        room = width - self._gutter(width) - self._margin
        keys, narrowest = self.matrix.keys, self._narrowest
        if narrowest * len(keys) > room:
            return None
        across = [max(narrowest, cell_len(key) + 1) for key in keys]
        if sum(across) <= room:
            labels = [self._joined([fit(key, w, "center") for key, w in zip(keys, across, strict=True)])]
        else:
            across = [narrowest] * len(keys)
            kept = self.matrix.kept
            labels = vertical(keys[kept:], narrowest)
            if kept:
                labels = beside(vertical(keys[:kept], narrowest), labels, narrowest * kept, len(_GAP))
        if self.matrix.cropped:
            numbers = [fit(str(n), w, "center") for n, w in zip(self.matrix.columns, across, strict=True)]
            labels.append(self._joined(numbers))
        return Columns(across, labels)

    def numbers_width(self, most: int) -> int | None:
        """Columns that the numbers take of `most`; None where they do not fit."""
        columns = self.columns(most)
        return None if columns is None else self._gutter(most) + sum(columns.widths) + self._margin

    @property
    def _margin(self) -> int:
        """Beside the numbers: the sums, and the gap behind the first keys."""
        return (_SUM if self.matrix.sums else 0) + (len(_GAP) if self.matrix.kept else 0)

    @cached_property
    def _narrowest(self) -> int:
        number = 6 if self.matrix.signed else 4  # "+.25 " and ".87 "
        return max(number, len(str(max(self.matrix.columns, default=0))) + 1) if self.matrix.cropped else number

    def _row_labels(self, width: int, *, numbered: bool) -> tuple[str, ...]:
        """Labels of queries, cut where they take more than a fifth of the width, with their positions."""
        queries = self.matrix.queries
        if not numbered:
            return queries
        digits = len(str(max(self.matrix.rows, default=0)))
        room = min(widest(queries), max(8, width // 5) - digits - 1)
        return tuple(f"{fit(label, room)} {n:>{digits}}" for n, label in zip(self.matrix.rows, queries, strict=True))

    def _gutter(self, width: int) -> int:
        return min(widest(self._row_labels(width, numbered=self.matrix.cropped)), max(8, width // 5)) + 1

    def _joined(self, cells: list[str]) -> str:
        kept = self.matrix.kept
        return "".join(cells[:kept]) + (" " * len(_GAP) if kept else "") + "".join(cells[kept:])

    def _numbers(self, columns: Columns, gutter: int, brush: Brush, width: int) -> RenderResult:
        matrix = self.matrix
        grid = levels(matrix.values, *matrix.scale)
        *above, last = columns.header
        for header in [*above, last + ("sum".rjust(_SUM) if matrix.sums else "")]:
            yield Text(" " * gutter + header, no_wrap=True, overflow="crop")
        labels = self._row_labels(width, numbered=matrix.cropped)
        for row, label in enumerate(labels):
            texts = ["·" if np.isnan(value) else matrix.text(value) for value in matrix.values[row].tolist()]
            yield from labelled_row(
                fit(label, gutter - 1, "right") + " ",
                texts,
                grid[row].tolist(),
                columns.widths,
                brush,
                align="center",
                faint="·",
                gaps={matrix.kept: _GAP} if matrix.kept else {},
            )
            if matrix.sums:
                yield Segment(f"{matrix.sums[row]:{_SUM}.2f}", _DIM)
            yield Segment.line()
        low, high = matrix.scale
        bar = scale_bar(matrix.text(low) if matrix.signed else "0", matrix.text(high), brush) if brush.in_color else []
        empty = f"  ·: {matrix.empty}" if np.isnan(matrix.values).any() else ""
        yield from legend(bar, matrix.meaning + empty, gutter, width)

    def _map(self, width: int) -> RenderResult:
        matrix = self.matrix
        heat_map = HeatMap(
            matrix.values,
            matrix.meaning,
            empty=matrix.empty,
            row_labels=self._row_labels(width, numbered=True),
            column_labels=matrix.keys,
            column_numbers=matrix.columns,
            signed=matrix.signed,
            square=True,
            kept=min(matrix.kept, width // 3),
        )
        yield heat_map
        if heat_map.columns_are_numbered(width) and not set(matrix.columns) <= self._labelled:
            if len(matrix.keys) > _MOST_NAMES:
                yield Text(
                    f"{len(matrix.keys)} keys; --columns A:B shows a part of them with their labels", style="dim"
                )
                return
            names = "  ".join(f"{number} {label}" for number, label in zip(matrix.columns, matrix.keys, strict=True))
            yield Text(f"keys: {names}", style="dim")

    @property
    def _labelled(self) -> set[int]:
        """Positions of keys that stand at the rows already, where both are of one text."""
        return set(self.matrix.rows) if self.matrix.one_text else set()
