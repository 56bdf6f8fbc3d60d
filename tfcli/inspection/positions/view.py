"""Positional encodings drawn: tables, curves, and which requirements they meet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Column, Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.heatmap import HeatMap
from tfcli.draw.numbers import exact, residue
from tfcli.draw.safe import printable
from tfcli.draw.tables import CsvTable, Fact, Facts, columns, dim, heading, to_json
from tfcli.inspection.explain import Matrix, Measure, Step
from tfcli.inspection.explain.view import StepView
from tfcli.inspection.positions import BeyondContext, Described, PositionsRecord, Requirement, Requirements, ShiftRecord
from tfcli.records.arrays import frozen

ROWS = 24  # positions that are drawn where nobody says how many there are
_MOST_HEADS, _MOST_ROWS, _MOST_CELLS = 32, 64, 1 << 16  # lines of maps; cells of a file: 4 MB
_STYLES = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta")
_LETTERS = "abcdefgh"  # that tell curves apart where there is no colour
_WISHES = "What a positional encoding should be"
_ANGLES = "columns 2i and 2i + 1: cosine and sine of n / L^(2i/Dh),"
_FORMULAS = {
    ("sinusoidal", "interleaved"): ("columns 2i and 2i + 1: sine and cosine of n / L^(2i/D)",),
    ("sinusoidal", "halves"): ("columns i and i + D/2: sine and cosine of n / L^(2i/D)",),
    ("rotary", "interleaved"): (_ANGLES, "the angle that turns dimensions 2i and 2i + 1 of a head (Dh: its size)"),
    ("rotary", "halves"): (_ANGLES, "the angle that turns dimensions i and i + Dh/2 of a head (Dh: its size)"),
}


@dataclass(frozen=True)
class PositionsView(View[PositionsRecord]):
    """A map centred on 0 of the first `rows` positions, in a file of all that are not too many; a curve by distance."""

    rows: int = ROWS
    in_file: bool = False

    @property
    def width(self) -> int | None:
        """Columns in which a file has a cell for every number; None: there are too many, or there is no such map."""
        positions, dimensions = self.record.table.shape
        room = len(str(self.record.first + positions)) + 2 + dimensions
        return room if self.record.columns == "dimension" and positions * dimensions <= _MOST_CELLS else None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record = self.record
        yield from heading(_title(record))
        if record.columns == "head":
            yield from _biases(record, console)
            return
        numbers = f" ({record.first} to {record.first + record.length - 1})" if record.first else ""
        halves = "the cosines, then the sines" if record.encoding == "rotary" else "the sines, then the cosines"
        order = f": {halves}" if record.layout else ""
        yield from dim(f"{record.length} positions down{numbers} × {record.d_model} dimensions across{order}")
        whole = self.in_file and self.width is not None
        cut = self.rows < record.length and not whole
        shown = replace(record, table=record.table[: self.rows]) if cut else record
        yield VectorMap(shown, record.length if whole else _MOST_ROWS)
        if cut:
            yield from dim(f"drawn: the first {self.rows} positions; more with --length, every number with --csv")
        yield from dim(*_FORMULAS.get((record.encoding, record.layout or ""), ()))
        assert record.similarity is not None, "vectors have a similarity"
        words = "r_n · r_n+k of vectors scaled to length 1 (their cosine), mean over n"
        yield from heading("\nDot product of two positions by their distance", words)
        yield Plot((Series("similarity", range(len(record.similarity)), record.similarity, "cyan"),), "distance k")


def _biases(record: PositionsRecord, console: Console) -> RenderResult:
    """A map of what they do to the weights (heads down, distances across), then a curve for some of the heads."""
    distances, heads = record.table.shape
    yield from dim(f"{heads} heads down × {distances} distances across")
    yield BiasMap(record)
    yield from dim(*_meaning(record))
    step = -(-heads // len(_STYLES))
    yield from heading(f"\nBias by distance, {'a curve a head' if step == 1 else f'a curve for one head of {step}'}")
    curves = {str(head): record.table[:, head] for head in range(0, heads, step)}
    yield Plot(_told_apart(curves, record.first, console), "distance k · head")


def _told_apart(curves: Mapping[str, NDArray[np.float32]], first: int, console: Console) -> tuple[Series, ...]:
    """Curves by name from x = `first` on, each in a colour, or where there are none drawn as letters."""
    in_color = console.color_system is not None and not console.no_color
    return tuple(
        Series(name, range(first, first + len(ys)), ys, style, marker="" if in_color else letter)
        for (name, ys), style, letter in zip(curves.items(), _STYLES, _LETTERS, strict=False)
    )


def _meaning(record: PositionsRecord) -> list[str]:
    if record.encoding != "alibi":
        after = "; where k < 0, after it" if record.first < 0 else ""
        learned = "bias: learned, a number a head for every bucket of distances; one for all layers"
        return [f"distance k: the key stands k tokens before its query{after}", learned]
    slopes = [f"{slope:.3g}" for row in record.table[1:2] for slope in -row]
    shown = slopes if len(slopes) <= len(_STYLES) else [*slopes[:4], "…", *slopes[-2:]]
    lines = ["distance k: the key stands k tokens from its query", "bias: −m · k, each head with its own slope m"]
    return lines + [f"m = {', '.join(shown)}"] * bool(shown)


@dataclass(frozen=True)
class BiasMap(View[PositionsRecord]):
    """The weights of a softmax over equal scores; biases would draw little but the steepest."""

    meaning: str = "weight relative to the head's largest, scores equal"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        distances, heads = self.record.table.shape
        head_step = -(-heads // _MOST_HEADS)
        labels = tuple(f"head {head}" for head in range(0, heads, head_step))
        cells = max(1, (options.max_width - max(map(len, labels)) - 1) // 2)
        step = -(-distances // cells)
        rows = [row for row in range(distances) if (self.record.first + row) % step == 0]  # 0 is always among them
        numbers = tuple(self.record.first + row for row in rows)
        shown = _weight_by_distance(self.record)[rows, ::head_step].T
        yield HeatMap(shown, self.meaning, row_labels=labels, column_numbers=numbers)
        if left_out := [f"one {noun} of {n}" for noun, n in (("head", head_step), ("distance", step)) if n > 1]:
            yield from dim(f"drawn: {'; '.join(left_out)}")


def _weight_by_distance(record: PositionsRecord) -> NDArray[np.float32]:
    """What a softmax over equal scores gives, by the head's largest. Shape: (distances, H)."""
    return frozen(np.exp(record.table - record.table.max(axis=0)))


@dataclass(frozen=True)
class VectorMap(View[PositionsRecord]):
    """The positions and dimensions that fit, every so many of them. The two of a pair would draw stripes side by side:
    one half of all pairs comes first, then the other, and pairs are left out whole."""

    most_rows: int = _MOST_ROWS
    meaning: str = "value, centred on 0"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, (positions, dimensions) = self.record, self.record.table.shape
        gutter, row_step = len(str(record.first + positions - 1)) + 1, -(-positions // self.most_rows)
        pair_step = -(-dimensions // max(2, (options.max_width - gutter - 1) // 2 * 2))
        half, halves = -(-dimensions // 2), record.encoding == "sinusoidal" and record.layout == "halves"
        ordered = range(dimensions) if halves else [*range(0, dimensions, 2), *range(1, dimensions, 2)]
        kept = ordered[:half:pair_step]
        rows, shown = range(0, positions, row_step), [*kept, *ordered[half::pair_step]]
        if record.layout is None:
            shown, kept = sorted(shown), []
        values, labels = record.table[np.ix_(rows, shown)], tuple(str(record.first + row) for row in rows)
        across, wide = tuple(shown), 2 * len(rows) <= self.most_rows
        yield HeatMap(values, self.meaning, labels, column_numbers=across, signed=True, wide=wide, kept=len(kept))
        if row_step > 1 or pair_step > 1:
            steps = (("position", row_step), ("pair of dimensions", pair_step))
            drawn = (f"every {noun}" if step == 1 else f"one {noun} of {step}" for noun, step in steps)
            yield from dim(f"drawn: {'; '.join(drawn)}")


def _title(record: PositionsRecord) -> str:
    scaled = f"n divided by {record.scaling:g}" if record.scaling != 1 else ""
    if record.stretching != "linear":
        scaled = f"stretched {record.scaling:g}-fold by {printable(record.stretching)}"
    base, side = f"base {record.base:g}" if record.base else "", f"{record.side} side" if record.side else ""
    return " · ".join(filter(None, ("Positions", printable(record.encoding), record.layout, base, scaled, side)))


def positions_csv(record: PositionsRecord) -> CsvTable:
    """The table alone, a row a line and no heading, as `numpy.loadtxt` reads it."""
    return CsvTable((), (tuple(str(value) for value in row) for row in record.table))


class BeyondContextView(View[BeyondContext]):
    """The loss of each stretch, then a curve by position with the context's end marked."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        beyond, first = self.record, self.record.bands[0].loss
        notes = ["within the context", *(f"{band.loss / first - 1:+.0%} beyond it" for band in beyond.bands[1:])]
        names = [f"positions {band.first:,} to {band.last - 1:,}" for band in beyond.bands]
        facts = [*map(Fact, names, (f"{band.loss:.3f}" for band in beyond.bands), notes)]
        yield Facts(f"Loss by position · context {beyond.context:,} · {beyond.texts} texts", facts)
        xs, ys = beyond.bin * (np.arange(len(beyond.curve)) + 0.5), beyond.curve.astype(float)
        curves = [Series("loss", xs, ys, "cyan")]
        if beyond.learned:
            yield from dim("Positions are learned: there are none beyond the context.")
        else:
            steps = ys.min() + (ys.max() - ys.min()) * np.arange(9) / 8
            curves.append(Series("end of the context", (beyond.context,) * 9, steps, "red", "┊"))
        yield Plot(tuple(curves), "position")


_VERDICTS = {None: ("not measured", "yellow"), True: ("met", "green"), False: ("not met", "bold red")}
_PANEL = 30  # cells a small map needs
_NARROW = 60  # cells that a line of a requirement needs


class RequirementsView(View[Requirements]):
    """The requirements of one encoding, a line each."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from heading(_WISHES)
        table = columns("llrw")
        for one in self.record.requirements:
            verdict, number = Text(*_VERDICTS[one.met]), (_number(one), "bold")
            if options.max_width < _NARROW:
                yield Text.assemble(f"{one.name}  ", verdict, "  ", number, (f"\n  {one.measured}", "dim"))
            else:
                table.add_row(Text(one.name), verdict, Text(*number), Text(one.measured, "dim"))
        yield table
        yield from dim(f"how it joins the tokens: {self.record.joins}")


class ComparisonView(View[Sequence[Described]]):
    """Every encoding's map, how alike positions are by their distance, and a table of the requirements."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tables, found = zip(*self.record, strict=True)
        words = "vectors: positions down × dimensions across; biases: heads down × distances across"
        yield from heading("Positions · every encoding side by side", words)
        across, panels = max(1, min(3, options.max_width // _PANEL)), []
        for record, of in self.record:
            title = Text(f"{record.encoding} · {printable(of.origin)}", style="bold", no_wrap=True)
            drawn = VectorMap(record, 16, "") if record.columns == "dimension" else BiasMap(record, "")
            panels.append(Group(title, drawn))
        for start in range(0, len(panels), across):
            grid = Table.grid(*(Column(ratio=1) for _ in range(across)), padding=(0, 2, 0, 0), expand=True)
            grid.add_row(*panels[start : start + across])
            yield from (Text(), grid)
        words = "vectors: their cosine, mean over n; biases: weight by the largest, scores equal, mean over heads"
        yield from heading("\nHow alike two positions are by their distance", words)
        length = min(record.length for record in tables)
        curves = {record.encoding: _alike(record)[:length] for record in tables}
        yield Plot(_told_apart(curves, 0, console), "distance k")
        yield from heading(f"\n{_WISHES}")
        wishes = [*zip(*(one.requirements for one in found), strict=True)]
        heads = (Column(of.encoding, no_wrap=True) for of in found)
        table = Table("", *heads, box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
        for row in wishes:
            cells = ("not\nmeasured" if one.met is None else f"{_VERDICTS[one.met][0]}\n{_number(one)}" for one in row)
            table.add_row(row[0].name, *map(Text, cells, (_VERDICTS[one.met][1] for one in row)))
        yield table
        yield from heading("Whose numbers, and how they join the tokens")
        joins = Table.grid(padding=(0, 2))
        for of in found:
            joins.add_row(Text(of.encoding), Text(printable(of.origin), "dim"), Text(of.joins, "dim"))
        yield joins
        yield from heading("\nWhat the numbers are")
        measured = columns("lw")
        for row in wishes:
            named = dict[str, list[str]]()
            for one, of in zip(row, found, strict=True):
                named.setdefault(one.measured, []).append(of.encoding)
            lines = [f"{', '.join(names)}: {words}" for words, names in named.items()]
            measured.add_row(Text(row[0].name), Text("\n".join(lines), "dim"))
        yield measured


def requirements_table(every: Sequence[Described]) -> CsvTable:
    """A line a requirement of each encoding."""
    rows = ((of.encoding, of.origin, of.joins, *vars(one).values()) for _, of in every for one in of.requirements)
    return CsvTable(("encoding", "origin", "joins", "requirement", "met", "value", "measured"), rows)


def comparison_json(every: Sequence[Described]) -> dict[str, Any]:
    """Every encoding with its table."""
    return {"encodings": [to_json(record) | to_json(found) for record, found in every]}


def _number(one: Requirement) -> str:
    if one.value is None:
        return ""
    if one.value >= 1000:
        return exact(round(one.value))
    if one.value == 0:
        return "0"
    return f"{one.value:.0e}" if 1e-6 <= one.value < 0.001 else residue(one.value)


def _alike(record: PositionsRecord) -> NDArray[np.float32]:
    """From distance 0 on."""
    similar = record.similarity
    return frozen(_weight_by_distance(record).mean(axis=1)[-record.first :]) if similar is None else similar


_MOST = 8  # dimensions that are shown


class ShiftView(View[ShiftRecord]):
    """Its first dimensions as numbers, the angle of each pair, and how exact it is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield StepView(_step(self.record))
        if self.record.alone:
            yield from dim("  the last dimension is a sine without its cosine: no matrix carries it")


def _step(shift: ShiftRecord) -> Step:
    k, size = shift.shift, len(shift.matrix)
    shown = list(range(min(_MOST, size)))
    if shift.pairs is not None and size > _MOST:
        shown = sorted(shift.pairs[: _MOST // 2].ravel().tolist())
    labels = (tuple(map(str, shown)),) * 2
    matrix = Matrix(f"R_{k}", frozen(shift.matrix[np.ix_(shown, shown)]), *labels, ("dims", "dims"))
    if shift.angles is None or shift.pairs is None:
        formula = f"r_n+{k} ≈ R_{k} r_n, R_{k} of least squares"
        angles, left, rest = [], ", on positions not fitted on", "the others likewise."
        note = "No rotation is behind a learned table: a residual near 0 would mean that distance is consistent."
    else:
        above, below = ("−", "") if shift.encoding == "rotary" else ("", "−")
        turn = f"[cos kω  {above}sin kω; {below}sin kω  cos kω]"
        formula = f"r_n+{k} = R_{k} r_n; each pair: {turn}, ω = L^(−2i/D), any n"
        pairs = enumerate(zip(shift.pairs[: _MOST // 2].tolist(), shift.angles.tolist(), strict=False))
        angles = [Measure(f"pair {i} ({a}, {b})", angle, "kω, radians") for i, ((a, b), angle) in pairs]
        left, rest = ": what float32 rounds", "the others turn ever less."
        note = "A rotation that does not depend on n: equal distances are equal turns, wherever they begin."
    is_rotation = shift.angles is not None
    residual = Measure("left over", shift.residual, f"|r_n+k − R_k r_n| by |r_n+k|{left}", is_residue=is_rotation)
    if len(shown) < size:
        note += f"\nThe first {len(shown)} of {size} dimensions; {rest}"
    return Step(f"From position n to n + {k}", formula, (matrix,), (*angles, residual), note)


def shift_table(shift: ShiftRecord) -> CsvTable:
    """The matrix, a line a number."""
    return CsvTable(("row", "column", "value"), ((*at, str(value)) for at, value in np.ndenumerate(shift.matrix)))


def positions_json(
    record: PositionsRecord, found: Requirements, shift: ShiftRecord | None, beyond: BeyondContext | None
) -> dict[str, Any]:
    """A table, what it should be, and what else was asked for; null: it was not."""
    more = {"shift": shift and to_json(shift), "beyond_context": beyond and to_json(beyond)}
    return {**to_json(record), **to_json(found), **more}
