"""Attention maps: one matrix, in the terminal and as SVG, and thumbnails of every head."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.draw import heatmap
from tfcli.draw.colors import NO_VALUE_MARK, SIGNED, WEIGHTS, Brush, Colormap, brush_for, levels
from tfcli.draw.numbers import plural, weight
from tfcli.draw.safe import ARROW, fit, in_room, printable, token_label, widest
from tfcli.draw.tables import dim, heading
from tfcli.inspection.attention import AttentionDifference, AttentionKind, AttentionRecord, AttentionTokens, asking

_LONGEST = 24  # cells of a label
KIND_NAMES: dict[AttentionKind, str] = {
    "encoder_self": "encoder self-attention",
    "decoder_self": "decoder self-attention",
    "cross": "cross-attention",
}
HABITS = "beyond the first word, punctuation, itself and its neighbours"
_SUM = 5  # cells of a row's sum
_GAP = "│ "  # behind the first keys
_MOST_NAMES = 200  # keys that are listed where a ruler has no room for labels
_SIDE, _GAP_OF_MAPS = 16, 2  # cells of a small map
Scale = Literal["all", "each"]  # colours of weights: from 0 to 1 in all maps, or to the largest weight of each


def sides(one: AttentionTokens) -> str:
    """What rows and columns are; on a line of their own, what stands for a next token, and what words are made of."""
    rows = f"input{ARROW}next token" if one.next_tokens else "queries"
    keys = {"encoder_self": ", both the text", "decoder_self": ", the text so far", "cross": " (source)"}[one.kind]
    more = ["“?”: the model's likeliest next token, where the text ends"] * one.next_predicted
    more += ["a word's column is the sum over its pieces, its row their mean"] * one.words
    return "\n".join((f"rows: {rows}{' (target)' * (one.kind == 'cross')}, columns: keys{keys}", *more))


def title(record: AttentionRecord, what: str = "weights") -> str:
    """What is shown, as one line."""
    return f"Attention {what} · {KIND_NAMES[record.kind]} · {record.place(*record.focus)}"


def labels(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Tokens that are safe to print on one line, alone or as "query → next token"."""
    return tuple(ARROW.join(map(token_label, token.split(ARROW))) for token in tokens)


def head_sums(record: AttentionRecord, layer: int, head: int) -> str:
    """What the rows of one head sum to, as measured, in what of it is shown."""
    sums = record.weights[layer, head].sum(axis=1, dtype=np.float64)
    is_one = np.allclose(sums, 1.0, atol=5e-3)
    told = "each row sums to 1" if is_one else f"rows sum to {sums.min():.2f} … {sums.max():.2f}"
    return told + (" in the columns shown" if record.key_positions else "")


def strongest(record: AttentionRecord) -> tuple[int, int] | None:
    """The row and the column of the head's strongest weight that says something of the text; None: there is none."""
    tells = record.telling
    if record.kind == "cross":
        tells[:, np.array(record.columns) == 0] = False
    weights = record.weights[record.focus] * tells
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    return (int(row), int(column)) if weights.any() else None


def look_at(record: AttentionRecord) -> str:
    """What `strongest` finds in words; "" where that is nothing."""
    if (found := strongest(record)) is None:
        return ""
    row, column = found
    query, key = placed(record.asking[row], record.rows[row]), placed(record.key_tokens[column], record.columns[column])
    where = "" if record.kind == "cross" else f", the strongest {HABITS}"
    value = float(record.weights[record.focus][row, column])
    return f"see {query} look at {key}: {weight(value) if value >= 0.005 else f'{value:.1g}'}{where}"


def placed(token: str, position: int) -> str:
    """The label of a token, at most 24 cells wide, with its position."""
    return f"{in_room(labels((token,)), _LONGEST)[0]} ({position})"


@dataclass(frozen=True)
class Matrix:
    """Numbers of every query (row) and key (column), labelled: as numbers while they fit, else as a heat map."""

    title: str
    note: str  # the lines under the title
    values: NDArray[np.float32]  # (T, S); NaN is no value, which `empty` explains
    queries: tuple[str, ...]  # labels, safe to print, those of `asking`
    keys: tuple[str, ...]
    rows: tuple[int, ...]  # positions in the text, of the columns too
    columns: tuple[int, ...]
    meaning: str
    empty: str
    signed: bool = False  # centred on 0
    stretched: bool = False  # colours of weights end at the largest of them, and not at 1
    sums: tuple[float, ...] = ()  # one a row; () for none
    kept: int = 0  # so many first keys stand apart and are never made smaller
    one_text: bool = True  # whether queries and keys are tokens of the same text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from [Text(words, style) for words, style in ((self.title, "bold"), (self.note, "dim")) if words]
        width = options.max_width
        header, room = self._header(width), max(8, width // 5, width - 2 * len(self.keys) - 2)
        names = header[0] if header else self._row_labels(room, numbered=True)
        if any(ARROW in query for query in self.queries) and not any(ARROW in name for name in names):
            last = self.queries[-1].partition(ARROW)[2]
            yield Text(f"the next token of a row stands in the row below it; that of the last: {last}", "dim")
        if header:
            yield from self._numbers(*header, brush_for(console, self.colormap), width)
        else:
            yield from self._map(names, width)

    @property
    def colormap(self) -> Colormap:
        """Of two sides for what is signed."""
        return SIGNED if self.signed else WEIGHTS

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The lowest and the highest value of the colours: from 0 to 1 for weights, unless they are `stretched`."""
        if not self.signed and not self.stretched:
            return 0.0, 1.0
        furthest = float(np.nanmax(np.abs(self.values), initial=0.0))
        return -furthest if self.signed and not np.isnan(self.values).all() else 0.0, furthest

    @property
    def signs(self) -> list[str]:
        """What the legend says of the signs: of a cell without a value, and of a space, where there are any."""
        found = []
        if np.isnan(self.values).any():
            found.append(f"{NO_VALUE_MARK}: {self.empty}")
        if any("·" in label for label in (*self.queries, *self.keys)):
            found.append("·: a space")
        return found

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

    @property
    def lowest(self) -> str:
        """What stands before the colour scale."""
        return self.text(self.scale[0]) if self.signed else "0"

    @property
    def highest(self) -> str:
        """What stands after the colour scale."""
        return "1" if self.scale == (0.0, 1.0) else self.text(self.scale[1])

    def _header(self, width: int) -> tuple[tuple[str, ...], list[int], list[str]] | None:
        """Labels of rows, which have what the columns leave, or a fifth of the width; the width of each column, and the
        lines above them: wide enough for every label; else narrow, labels downwards; None: numbers do not fit."""
        keys, kept, narrowest = self.keys, self.kept, 6 if self.signed else 4  # "+.25 " and ".87 "
        if self.cropped:
            narrowest = max(narrowest, len(str(max(self.columns, default=0))) + 1)
        room = width - (_SUM if self.sums else 0) - (len(_GAP) if kept else 0) - 1
        for widths in ([max(narrowest, cell_len(key) + 1) for key in keys], [narrowest] * len(keys)):
            names = self._row_labels(max(8, width // 5, room - sum(widths)), numbered=self.cropped)
            if widest(names) + sum(widths) <= room:
                break
        else:
            return None
        if all(cell_len(key) < cells for key, cells in zip(keys, widths, strict=True)):
            lines = [self._joined(keys, widths)]
        else:
            lines = heatmap.vertical(keys[kept:], narrowest)
            if kept:
                lines = heatmap.beside(heatmap.vertical(keys[:kept], narrowest), lines, narrowest * kept, len(_GAP))
        return names, widths, [*lines, self._joined(map(str, self.columns), widths)] if self.cropped else lines

    def _row_labels(self, room: int, *, numbered: bool) -> tuple[str, ...]:
        """Labels of queries in so many cells, with their positions if `numbered`."""
        digits = len(str(max(self.rows, default=0))) if numbered else -1
        names = in_room(self.queries, room - digits - 1)
        longest = widest(names)
        pairs = zip(self.rows, names, strict=True)
        return tuple(f"{fit(name, longest)} {n:>{digits}}" for n, name in pairs) if numbered else names

    def _joined(self, words: Iterable[str], widths: list[int]) -> str:
        cells = [fit(word, width, "center") for word, width in zip(words, widths, strict=True)]
        if self.kept:
            cells.insert(self.kept, " " * len(_GAP))
        return "".join(cells)

    def _numbers(
        self, names: tuple[str, ...], widths: list[int], header: list[str], brush: Brush, width: int
    ) -> RenderResult:
        grid, gutter = levels(self.values, *self.scale).tolist(), widest(names) + 1
        header[-1] += "sum".rjust(_SUM) if self.sums else ""
        for line in header:
            yield Text(" " * gutter + line, no_wrap=True, overflow="crop")
        gaps = {self.kept: _GAP} if self.kept else {}
        for row, label in enumerate(names):
            name = fit(label, gutter - 1, "right") + " "
            texts = [NO_VALUE_MARK if np.isnan(value) else self.text(value) for value in self.values[row].tolist()]
            yield from heatmap.labelled_row(
                name, texts, grid[row], widths, brush, align="center", faint=NO_VALUE_MARK, gaps=gaps
            )
            if self.sums:
                yield Segment(f"{self.sums[row]:{_SUM}.2f}", Style(dim=True))
            yield Segment.line()
        bar = heatmap.scale_bar(self.lowest, self.highest, brush) if brush.in_color else []
        yield from heatmap.legend(bar, "  ".join((self.meaning, *self.signs)), gutter, width)

    def _map(self, names: tuple[str, ...], width: int) -> RenderResult:
        axes, kept = (names, self.keys, self.columns), min(self.kept, width // 3)
        heat_map = heatmap.HeatMap(
            self.values,
            self.meaning,
            *axes,
            signed=self.signed,
            square=True,
            empty=self.empty,
            kept=kept,
            scale=self.scale,
        )
        yield heat_map
        # Where both are of one text, keys stand at the rows already.
        labelled = set(self.rows) if self.one_text else set()
        if heat_map.columns_are_numbered(width) and not set(self.columns) <= labelled:
            every = "  ".join(f"{number} {label}" for number, label in zip(self.columns, self.keys, strict=True))
            many = f"{len(self.keys)} keys; --columns A:B shows a part of them with their labels"
            yield Text(many if len(self.keys) > _MOST_NAMES else f"keys: {every}", style="dim")


def weights_matrix(record: AttentionRecord, kept: int = 0, scale: Scale = "all") -> Matrix:
    """The weights of the head in focus."""
    rows, *more = sides(record).split("\n")
    more += [record.formula] * bool(record.names and record.formula)
    return _of_record(
        record,
        record.visible_weights(*record.focus),
        kept,
        title=title(record),
        note="\n".join((f"{rows}; {head_sums(record, *record.focus)}", *more)),
        meaning="attention weight",
        empty="exactly 0, masked",
        stretched=scale == "each",
        sums=tuple(record.weights[record.focus].sum(axis=1, dtype=np.float64).tolist()),
    )


def scores_matrix(record: AttentionRecord, kept: int, values: NDArray[np.float32], title: str, meaning: str) -> Matrix:
    """Scores of the head in focus, or what positions add to them, `values` (L, H, T, S), without those of masked cells,
    which the softmax never sees."""
    visible = np.where(record.hidden(*record.focus), np.float32(np.nan), values[record.focus])
    empty = "masked: −∞ for the softmax"
    return _of_record(record, visible, kept, title=title, note="", meaning=meaning, empty=empty, signed=True)


def _of_record(record: AttentionRecord, values: NDArray[np.float32], kept: int, **words: Any) -> Matrix:
    queries, keys = labels(record.asking), labels(record.key_tokens)
    return _matrix(record, record.rows, record.columns, kept, values=values, queries=queries, keys=keys, **words)


def difference_matrix(difference: AttentionDifference, kept: int = 0) -> Matrix:
    """What the first side looks at more (above 0) and less (below 0) than the second."""
    one, (first, second) = difference, map(printable, difference.names)
    others = asking(one.other_query_tokens, one.other_next_tokens, predicted=one.next_predicted)
    return _matrix(
        *(one, one.query_positions, one.key_positions, kept),
        title=f"Difference of attention weights · {KIND_NAMES[one.kind]}{f' · {one.place}' * bool(one.place)}",
        note=f"{first} − {second}\n{sides(one)}\nabove 0: the first looks more, below 0: the second does",
        values=one.visible_differences,
        queries=paired(one.asking, others),
        keys=paired(one.key_tokens, one.other_key_tokens),
        meaning="difference of weights",
        empty="exactly 0 on both sides, masked",
        signed=True,
    )


def _matrix(one: AttentionTokens, rows: tuple[int, ...], columns: tuple[int, ...], kept: int, **words: Any) -> Matrix:
    """Of the first keys those in sight stand apart; none where they are all there is."""
    kept, one_text = kept if kept < len(columns) else 0, one.kind != "cross"
    return Matrix(rows=rows, columns=columns, kept=kept, one_text=one_text, **words)


def paired(tokens: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """A label a place, with both tokens where they differ."""
    both = zip(labels(tokens), labels(others), strict=True)
    sides = (zip(one.split(ARROW), other.split(ARROW), strict=True) for one, other in both)
    return tuple(ARROW.join(a if a == b else f"{a}|{b}" for a, b in pairs) for pairs in sides)


def attention_overview(record: AttentionRecord, scale: Scale = "all", layer: int | None = None) -> Group:
    """Every head small, of one `layer` or of all: layers down, heads across, each at most 16 columns wide."""
    num_layers, num_heads, rows, columns = record.weights.shape
    maps: list[list[tuple[str, NDArray[np.float32]]]] = []
    for shown in range(num_layers) if layer is None else [layer]:
        row = []
        for head in range(num_heads):
            name = f"L{shown}" if record.names else f"L{shown} H{head}"
            row.append((name, record.visible_weights(shown, head)))
        if record.names and maps:  # one head a layer: all of them in one row
            maps[0] += row
        else:
            maps.append(row)
    layers, heads = plural(num_layers, "layer"), plural(num_heads, "head")
    if record.names:
        what, size = "every layer", f"{layers} (L)"
    elif layer is not None:
        what, size = f"layer {layer}, every head", f"{heads} (H)"
    else:
        what, size = "every head", f"{layers} (L) × {heads} (H)"
    about = f"{size}; {rows} queries down, {columns} keys across"
    return Group(*heading(f"Attention weights · {KIND_NAMES[record.kind]} · {what}", about), Thumbnails(maps, scale))


@dataclass(frozen=True)
class Thumbnails:
    """Small maps of one shape under their names, a line of them a row; those that do not fit go to the next line. In
    long texts a cell shows the largest weight of its block. Shape: (T, S) each, NaN where a query may not look."""

    rows: list[list[tuple[str, NDArray[np.float32]]]]
    scale: Scale = "all"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        brush, every = brush_for(console, WEIGHTS), [one for row in self.rows for one in row]
        longest, columns = max(every[0][1].shape), every[0][1].shape[1]
        # The same size on the screen with half blocks (16 × 16) and with shades two columns wide (8 × 8).
        side, cell_width = (_SIDE, 1) if brush.in_color else (_SIDE // 2, 2)
        factor, growth = -(-longest // side), max(1, side // longest)
        width = max(-(-columns // factor) * growth * cell_width, *(len(name) for name, _ in every))
        per_line = max(1, (options.max_width + _GAP_OF_MAPS) // (width + _GAP_OF_MAPS))
        for row in self.rows:
            for first in range(0, len(row), per_line):
                shown = row[first : first + per_line]
                yield Text((" " * _GAP_OF_MAPS).join(fit(name, width) for name, _ in shown), no_wrap=True)
                drawn = []
                for _, weights in shown:
                    small = heatmap.max_pool(weights, factor, factor).repeat(growth, axis=0).repeat(growth, axis=1)
                    top = 1.0 if self.scale == "all" else float(np.nanmax(small, initial=0.0))
                    drawn.append(small_map(small, top, brush))
                for *parts, last in zip(*drawn, strict=True):
                    for part in parts:
                        yield from Segment.adjust_line_length(part, width + _GAP_OF_MAPS)
                    yield from [*last, Segment.line()]
        is_shared = self.scale == "all"
        yield from dim(f"colours: {'one scale for all maps' if is_shared else 'each map on its own scale'}")
        yield from heatmap.scale_bar("0", "1" if is_shared else "its largest", brush)
        yield from dim(f"  attention weight{f'; a cell shows the largest of {factor} × {factor}' * (factor > 1)}")


def small_map(weights: NDArray[np.float32], highest: float, brush: Brush) -> list[heatmap.Line]:
    """Weights from 0 to `highest` as half blocks, one column each; without colour as shades, two columns wide."""
    grid = levels(weights, 0.0, highest)
    return heatmap.half_block_lines(grid, brush) if brush.in_color else heatmap.whole_cell_lines(grid, brush, 2)
