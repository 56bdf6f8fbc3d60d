"""A positional encoding as a heat map, curves by distance, and the loss beyond the context."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw.curve import Plot, Series
from tfcli.draw.heatmap import HeatMap
from tfcli.draw.safe import printable
from tfcli.draw.tables import CsvTable, Fact, Facts
from tfcli.inspection.positions import BeyondContext, PositionsRecord

_MOST_HEADS = 32  # lines of the map
_STYLES = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta")
_LETTERS = "abcdefgh"  # that tell curves apart where there is no colour


@dataclass(frozen=True)
class BiasMap:
    """e^(bias − the head's largest): a softmax over equal scores gives its weights in proportion to it. Biases
    themselves would draw little but the steepest head."""

    record: PositionsRecord
    meaning: str = "weight relative to the head's largest, scores equal"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        distances, heads = self.record.table.shape
        head_step = -(-heads // _MOST_HEADS)
        labels = tuple(f"head {head}" for head in range(0, heads, head_step))
        cells = max(1, (options.max_width - max(map(len, labels)) - 1) // 2)
        step = -(-distances // cells)
        rows = [row for row in range(distances) if (self.record.first + row) % step == 0]  # 0 is always among them
        yield HeatMap(
            weight_by_distance(self.record)[rows, ::head_step].T,
            self.meaning,
            row_labels=labels,
            column_numbers=tuple(self.record.first + row for row in rows),
        )
        left_out = [f"one {noun} of {n}" for noun, n in (("head", head_step), ("distance", step)) if n > 1]
        if left_out:
            yield Text(f"drawn: {'; '.join(left_out)}", style="dim")


def weight_by_distance(record: PositionsRecord) -> NDArray[np.float32]:
    """What a softmax over equal scores gives, by the head's largest.

    Shape:
        returns: (distances, H)
    """
    weights: NDArray[np.float32] = np.exp(record.table - record.table.max(axis=0))
    return weights


ROWS = 24
"""Positions that are drawn where nobody says how many there are."""

_MOST_ROWS = 64

_MERGED = {
    "add": "added to the embeddings",
    "concat": "concatenated to the embeddings",
    "query_key": "added in every layer to what queries and keys are projected from",
}
_ANGLES = "columns 2i and 2i + 1: cosine and sine of n / L^(2i/Dh),"
_FORMULAS = {
    ("sinusoidal", "interleaved"): ("columns 2i and 2i + 1: sine and cosine of n / L^(2i/D)",),
    ("sinusoidal", "halves"): ("columns i and i + D/2: sine and cosine of n / L^(2i/D)",),
    ("rotary", "interleaved"): (_ANGLES, "the angle that turns dimensions 2i and 2i + 1 of a head (Dh: its size)"),
    ("rotary", "halves"): (_ANGLES, "the angle that turns dimensions i and i + Dh/2 of a head (Dh: its size)"),
}


@dataclass(frozen=True)
class PositionsView:
    """The table as a map centred on 0, then a curve by distance: of vectors their similarity, of biases themselves.

    Args:
        rows: so many first positions are drawn; None: of all, every so many.
    """

    record: PositionsRecord
    rows: int | None = ROWS

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(_title(self.record), style="bold")
        if self.record.columns == "head":
            yield from _biases(self.record, console.color_system is not None and not console.no_color)
            return
        yield Text(_size(self.record), style="dim")
        cut = self.rows is not None and self.rows < self.record.length
        yield VectorMap(replace(self.record, table=self.record.table[: self.rows]) if cut else self.record)
        if cut:
            more = "more with --length, every number with --csv"
            yield Text(f"drawn: the first {self.rows} positions; {more}", style="dim")
        for line in _FORMULAS.get((self.record.encoding, self.record.layout or ""), ()):
            yield Text(line, style="dim")
        if self.record.merge:
            yield Text(_MERGED[self.record.merge], style="dim")
        yield Text()
        yield from self._similarity()

    def _similarity(self) -> RenderResult:
        assert self.record.similarity is not None, "vectors have a similarity"
        yield Text("Dot product of two positions by their distance", style="bold")
        yield Text("r_n · r_n+k of vectors scaled to length 1 (their cosine), mean over n", style="dim")
        distances = tuple(float(k) for k in range(len(self.record.similarity)))
        curve = Series("similarity", distances, tuple(self.record.similarity.tolist()), "cyan")
        yield Plot((curve,), "distance k")


def _biases(record: PositionsRecord, in_color: bool) -> RenderResult:
    """A map of what they do to the weights (heads down, distances across), then a curve for some of the heads."""
    distances, heads = record.table.shape
    yield Text(f"{heads} heads down × {distances} distances across", style="dim")
    yield BiasMap(record)
    for line in _meaning(record):
        yield Text(line, style="dim")
    yield Text()
    step = -(-heads // len(_STYLES))
    which = "a curve a head" if step == 1 else f"a curve for one head of {step}"
    yield Text(f"Bias by distance, {which}", style="bold")
    ks = tuple(float(record.first + row) for row in range(distances))
    curves = (
        Series(str(head), ks, tuple(record.table[:, head].tolist()), style, "" if in_color else letter)
        for head, style, letter in zip(range(0, heads, step), _STYLES, _LETTERS, strict=False)
    )
    yield Plot(tuple(curves), "distance k · head")


def _meaning(record: PositionsRecord) -> list[str]:
    if record.encoding != "alibi":
        after = "; where k < 0, after it" if record.first < 0 else ""
        return [
            f"distance k: the key stands k tokens before its query{after}",
            "bias: learned, a number a head for every bucket of distances; one for all layers",
        ]
    lines = ["distance k: the key stands k tokens from its query", "bias: −m · k, each head with its own slope m"]
    if record.length > 1:
        slopes = [f"{slope:.3g}" for slope in -record.table[1]]
        shown = slopes if len(slopes) <= len(_STYLES) else [*slopes[:4], "…", *slopes[-2:]]
        lines.append(f"m = {', '.join(shown)}")
    return lines


@dataclass(frozen=True)
class VectorMap:
    """The positions and dimensions that fit, every so many of them.

    Dimensions that share an angle are its sine and its cosine. Side by side they would draw stripes: the one half of
    all pairs comes first, then the other. Pairs are left out whole. Keeping the largest of a block instead would draw
    little but the cosines near 1.
    """

    record: PositionsRecord
    most_rows: int = _MOST_ROWS
    meaning: str = "value, centred on 0"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        positions, dimensions = self.record.table.shape
        gutter = len(str(self.record.first + positions - 1)) + 1
        row_step = -(-positions // self.most_rows)
        pair_step = -(-dimensions // max(2, (options.max_width - gutter - 1) // 2 * 2))
        half = -(-dimensions // 2)
        halves = self.record.encoding == "sinusoidal" and self.record.layout == "halves"
        ordered = range(dimensions) if halves else [*range(0, dimensions, 2), *range(1, dimensions, 2)]
        kept = ordered[:half:pair_step]
        rows = range(0, positions, row_step)
        columns = [*kept, *ordered[half::pair_step]]
        if _halves(self.record) is None:
            columns, kept = sorted(columns), []
        yield HeatMap(
            self.record.table[np.ix_(rows, columns)],
            self.meaning,
            row_labels=tuple(str(self.record.first + row) for row in rows),
            column_numbers=tuple(columns),
            signed=True,
            wide=2 * len(rows) <= self.most_rows,
            kept=len(kept),
        )
        if row_step > 1 or pair_step > 1:
            drawn = f"drawn: {_every(row_step, 'position')}; {_every(pair_step, 'pair of dimensions')}"
            yield Text(drawn, style="dim")


def _title(record: PositionsRecord) -> str:
    parts = ["Positions", printable(record.encoding)]
    if record.layout:
        parts.append(record.layout)
    if record.base is not None:
        parts.append(f"base {record.base:g}")
    if record.stretching != "linear":
        parts.append(f"stretched {record.scaling:g}-fold by {printable(record.stretching)}")
    elif record.scaling != 1:
        parts.append(f"n divided by {record.scaling:g}")
    if record.side:
        parts.append(f"{record.side} side")
    return " · ".join(parts)


def _size(record: PositionsRecord) -> str:
    numbers = f" ({record.first} to {record.first + record.length - 1})" if record.first else ""
    halves = _halves(record)
    order = f": the {halves[0]}s, then the {halves[1]}s" if halves else ""
    return f"{record.length} positions down{numbers} × {record.d_model} dimensions across{order}"


def _halves(record: PositionsRecord) -> tuple[str, str] | None:
    """What the two dimensions of a pair are; None: none are pairs."""
    if record.layout is None:
        return None
    return ("cosine", "sine") if record.encoding == "rotary" else ("sine", "cosine")


def _every(step: int, noun: str) -> str:
    return f"every {noun}" if step == 1 else f"one {noun} of {step}"


def positions_csv(record: PositionsRecord) -> CsvTable:
    """The table alone, a row a line and no heading, as `numpy.loadtxt` reads it."""
    return CsvTable((), (tuple(str(value) for value in row) for row in record.table))


@dataclass(frozen=True)
class BeyondContextView:
    """The loss of each stretch, then a curve by position with the context's end marked."""

    beyond: BeyondContext

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = self.beyond.bands[0].loss
        notes = ["within the context", *(f"{band.loss / first - 1:+.0%} beyond it" for band in self.beyond.bands[1:])]
        facts = [
            Fact(f"positions {band.first:,} to {band.last - 1:,}", f"{band.loss:.3f}", note)
            for band, note in zip(self.beyond.bands, notes, strict=True)
        ]
        yield Facts(f"Loss by position · context {self.beyond.context:,} · {self.beyond.texts} texts", facts)
        if self.beyond.learned:
            yield Text("Positions are learned: there are none beyond the context.", style="dim")
        size = self.beyond.bin
        xs = tuple(size * (number + 0.5) for number in range(len(self.beyond.curve)))
        ys = tuple(self.beyond.curve.tolist())
        steps = tuple(min(ys) + (max(ys) - min(ys)) * i / 8 for i in range(9))
        end = Series("end of the context", (self.beyond.context,) * 9, steps, "red", "┊")
        yield Plot((Series("loss", xs, ys, "cyan"), *(() if self.beyond.learned else (end,))), "position")
