"""Requirements of positional encodings as tables, all encodings side by side, and the matrix of a shift."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import exact
from tfcli.draw.safe import printable
from tfcli.draw.tables import CsvTable
from tfcli.inspection.explain import Matrix, Measure, Step
from tfcli.inspection.explain.view import StepView
from tfcli.inspection.positions import (
    PositionComparison,
    PositionRequirements,
    PositionsRecord,
    Requirement,
    ShiftRecord,
)
from tfcli.inspection.positions.view import BiasMap, VectorMap, weight_by_distance
from tfcli.records.arrays import frozen

_PANEL = 30  # cells a small map needs
_NARROW = 60  # cells that a line of a requirement needs
_STYLES = ("cyan", "magenta", "yellow", "green", "blue")
_LETTERS = "abcde"


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
            for record, style, letter in zip(self.comparison.tables, _STYLES, _LETTERS, strict=True)
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
