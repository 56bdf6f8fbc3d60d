"""The matrix that carries every position to the one k further."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.arrays import frozen
from tfcli.records.explain import Matrix, Measure, Step
from tfcli.records.positions import ShiftRecord
from tfcli.render.explain.steps import StepView
from tfcli.render.table_csv import Table

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
    shown = _shown(shift)
    labels = tuple(str(i) for i in shown)
    matrix = Matrix(f"R_{k}", frozen(shift.matrix[np.ix_(shown, shown)]), labels, labels, ("dims", "dims"))
    left_out = f"\nThe first {len(shown)} of {size} dimensions; {_rest(shift)}" if len(shown) < size else ""
    if shift.angles is None:
        formula = f"r_n+{k} ≈ R_{k} r_n, R_{k} of least squares"
        measures = [Measure("left over", shift.residual, "|r_n+k − R_k r_n| by |r_n+k|, on positions not fitted on")]
        note = "No rotation is behind a learned table: a residual near 0 would mean that distance is consistent."
        return Step(f"From position n to n + {k}", formula, (matrix,), tuple(measures), note + left_out)
    minus = ("−", "") if shift.encoding == "rotary" else ("", "−")
    formula = (
        f"r_n+{k} = R_{k} r_n; each pair: [cos kω  {minus[0]}sin kω; {minus[1]}sin kω  cos kω], ω = L^(−2i/D), any n"
    )
    angles = [
        Measure(f"pair {i} ({a}, {b})", float(angle), "kω, radians")
        for i, ((a, b), angle) in enumerate(zip(shift.pairs[: _MOST // 2].tolist(), shift.angles, strict=False))  # type: ignore[index]
    ]
    residual = Measure("left over", shift.residual, "|r_n+k − R_k r_n| by |r_n+k|: what float32 rounds")
    note = "A rotation that does not depend on n: equal distances are equal turns, wherever they begin."
    return Step(f"From position n to n + {k}", formula, (matrix,), (*angles, residual), note + left_out)


def _shown(shift: ShiftRecord) -> list[int]:
    """Whole pairs, in the order of their dimensions."""
    if shift.pairs is None or len(shift.matrix) <= _MOST:
        return list(range(min(_MOST, len(shift.matrix))))
    return sorted(shift.pairs[: _MOST // 2].ravel().tolist())


def _rest(shift: ShiftRecord) -> str:
    return "the others likewise." if shift.angles is None else "the others turn ever less."


def shift_table(shift: ShiftRecord) -> Table:
    """The matrix, a line a number."""
    return Table(("row", "column", "value"), _lines(shift))


def _lines(shift: ShiftRecord) -> Iterator[Sequence[Any]]:
    for row, values in enumerate(shift.matrix):
        for column, value in enumerate(values):
            yield row, column, str(value)
