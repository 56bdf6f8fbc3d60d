"""Positional encodings drawn: tables, curves, and which requirements they meet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from tfcli.draw.curve import Plot, Series
from tfcli.draw.heatmap import HeatMap
from tfcli.draw.numbers import exact
from tfcli.draw.safe import printable
from tfcli.draw.tables import CsvTable, Fact, Facts
from tfcli.inspection.explain import Matrix, Measure, Step
from tfcli.inspection.explain.view import StepView
from tfcli.inspection.positions import (
    BeyondContext,
    PositionComparison,
    PositionRequirements,
    PositionsRecord,
    Requirement,
    ShiftRecord,
)
from tfcli.records.arrays import frozen

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


_PANEL = 30  # cells a small map needs
_NARROW = 60  # cells that a line of a requirement needs


@dataclass(frozen=True)
class RequirementsView:
    """The requirements of one encoding, a line each."""

    found: PositionRequirements

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("What a positional encoding should be", style="bold")
        grid = Grid.grid(padding=(0, 2))
        for justify in ("left", "left", "right"):
            grid.add_column(no_wrap=True, justify=justify)
        grid.add_column()
        for one in self.found.requirements:
            if options.max_width < _NARROW:
                yield Text.assemble(f"{one.name}  ", _verdict(one), "  ", (_number(one), "bold"))
                yield Text(f"  {one.measured}", style="dim")
            else:
                grid.add_row(Text(one.name), _verdict(one), Text(_number(one), "bold"), Text(one.measured, "dim"))
        yield grid
        yield Text(f"how it joins the tokens: {self.found.joins}", style="dim")


@dataclass(frozen=True)
class PositionComparisonView:
    """Every encoding's map, how alike positions are by their distance, and a table of the requirements."""

    comparison: PositionComparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("Positions · every encoding side by side", style="bold")
        yield Text("vectors: positions down × dimensions across; biases: heads down × distances across", style="dim")
        yield from self._maps(options.max_width)
        yield Text()
        yield from self._by_distance(console.color_system is not None and not console.no_color)
        yield Text()
        yield Text("What a positional encoding should be", style="bold")
        yield self._requirements()
        yield from self._joins()
        yield Text()
        yield from self._measured()

    def _maps(self, width: int) -> RenderResult:
        across = max(1, min(3, width // _PANEL))
        tables = self.comparison.tables
        for start in range(0, len(tables), across):
            grid = Grid.grid(padding=(0, 2, 0, 0), expand=True)
            for _ in range(across):
                grid.add_column(ratio=1)
            chosen = [*zip(tables, self.comparison.requirements, strict=True)][start : start + across]
            grid.add_row(*(_Panel(record, found) for record, found in chosen))
            yield Text()
            yield grid

    def _by_distance(self, in_color: bool) -> RenderResult:
        yield Text("How alike two positions are by their distance", style="bold")
        words = "vectors: their cosine, mean over n; biases: weight by the largest, scores equal, mean over heads"
        yield Text(words, style="dim")
        length = min(record.length for record in self.comparison.tables)
        distances = tuple(float(k) for k in range(length))
        curves = (
            Series(record.encoding, distances, tuple(_alike(record)[:length]), style, "" if in_color else letter)
            for record, style, letter in zip(self.comparison.tables, _STYLES, _LETTERS, strict=False)
        )
        yield Plot(tuple(curves), "distance k")

    def _requirements(self) -> Grid:
        found = self.comparison.requirements
        grid = Grid(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
        grid.add_column("")
        for one in found:
            grid.add_column(one.encoding, no_wrap=True)
        for row in zip(*(one.requirements for one in found), strict=True):
            cells = [Text.assemble(_verdict(one), "\n", (_number(one), "bold")) for one in row]
            grid.add_row(Text(row[0].name), *cells)
        return grid

    def _joins(self) -> RenderResult:
        grid = Grid.grid(padding=(0, 2))
        for one in self.comparison.requirements:
            grid.add_row(Text(one.encoding), Text(printable(one.origin), "dim"), Text(one.joins, "dim"))
        yield Text("Whose numbers, and how they join the tokens", style="bold")
        yield grid

    def _measured(self) -> RenderResult:
        grid = Grid.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        for row in zip(*(one.requirements for one in self.comparison.requirements), strict=True):
            named: dict[str, list[str]] = {}
            for one, found in zip(row, self.comparison.requirements, strict=True):
                named.setdefault(one.measured, []).append(found.encoding)
            lines = [f"{', '.join(names)}: {words}" for words, names in named.items()]
            grid.add_row(Text(row[0].name), Text("\n".join(lines), "dim"))
        yield Text("What the numbers are", style="bold")
        yield grid


@dataclass(frozen=True)
class _Panel:
    record: PositionsRecord
    found: PositionRequirements

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"{self.record.encoding} · {printable(self.found.origin)}", style="bold", no_wrap=True)
        yield VectorMap(self.record, 16, "") if self.record.columns == "dimension" else BiasMap(self.record, "")


def requirements_table(found: Sequence[PositionRequirements]) -> CsvTable:
    """A line a requirement of each encoding."""
    return CsvTable(
        ("encoding", "origin", "joins", "requirement", "met", "value", "measured"),
        ((of.encoding, of.origin, of.joins, *vars(one).values()) for of in found for one in of.requirements),
    )


def _verdict(one: Requirement) -> Text:
    if one.met is None:
        return Text("unknown", "dim")
    return Text("met", "green") if one.met else Text("not met", "bold red")


def _number(one: Requirement) -> str:
    if one.value is None:
        return ""
    if one.value >= 1000:
        return exact(round(one.value))
    return f"{one.value:.0e}" if 0 < one.value < 0.001 else f"{one.value:.3g}"


def _alike(record: PositionsRecord) -> list[float]:
    """From distance 0 on."""
    if record.similarity is not None:
        return record.similarity.tolist()
    return np.mean(weight_by_distance(record), axis=1)[-record.first :].tolist()


_MOST = 8  # dimensions that are shown


@dataclass(frozen=True)
class ShiftView:
    """Its first dimensions as numbers, the angle of each pair, and how exact it is."""

    shift: ShiftRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield StepView(_step(self.shift))
        if self.shift.alone:
            yield Text("  the last dimension is a sine without its cosine: no matrix carries it", style="dim")


def _step(shift: ShiftRecord) -> Step:
    k, size = shift.shift, len(shift.matrix)
    shown = list(range(min(_MOST, size)))
    if shift.pairs is not None and size > _MOST:
        shown = sorted(shift.pairs[: _MOST // 2].ravel().tolist())
    labels = tuple(map(str, shown))
    matrix = Matrix(f"R_{k}", frozen(shift.matrix[np.ix_(shown, shown)]), labels, labels, ("dims", "dims"))
    if shift.angles is None or shift.pairs is None:
        formula = f"r_n+{k} ≈ R_{k} r_n, R_{k} of least squares"
        angles, left, rest = [], ", on positions not fitted on", "the others likewise."
        note = "No rotation is behind a learned table: a residual near 0 would mean that distance is consistent."
    else:
        above, below = ("−", "") if shift.encoding == "rotary" else ("", "−")
        formula = (
            f"r_n+{k} = R_{k} r_n; each pair: [cos kω  {above}sin kω; {below}sin kω  cos kω], ω = L^(−2i/D), any n"
        )
        angles = [
            Measure(f"pair {i} ({a}, {b})", float(angle), "kω, radians")
            for i, ((a, b), angle) in enumerate(zip(shift.pairs[: _MOST // 2].tolist(), shift.angles, strict=False))
        ]
        left, rest = ": what float32 rounds", "the others turn ever less."
        note = "A rotation that does not depend on n: equal distances are equal turns, wherever they begin."
    residual = Measure("left over", shift.residual, f"|r_n+k − R_k r_n| by |r_n+k|{left}")
    if len(shown) < size:
        note += f"\nThe first {len(shown)} of {size} dimensions; {rest}"
    return Step(f"From position n to n + {k}", formula, (matrix,), (*angles, residual), note)


def shift_table(shift: ShiftRecord) -> CsvTable:
    """The matrix, a line a number."""
    return CsvTable(("row", "column", "value"), ((*at, str(value)) for at, value in np.ndenumerate(shift.matrix)))
