"""A run's training as curves, with the sizes of its weights and updates by what they are part of."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from tfcli.records.training_curves import TrainingCurves
from tfcli.render.curve import Plot, Series
from tfcli.render.numbers import plural
from tfcli.render.runs.curves import color, letter
from tfcli.render.safe import printable
from tfcli.render.table_csv import Table

HEALTHY = 1e-3
_FACTOR = 10**0.5
"""How far from `HEALTHY` a ratio may be to be called near it: half a power of ten."""
_GUTTER = 7
_NARROW, _WIDE = 72, 100
"""Columns of a terminal from which on the table has a column of words, and a plot the names of its lines."""
_LOSS_LINES, _SMALL_LINES, _NORM_LINES, _RATIO_LINES = 9, 4, 6, 10

_NO_SIZES = (
    "Norms of weights and update ratios are not in this run's metrics: it was trained before tfcli recorded them. "
    "A new training records them at every report."
)


@dataclass(frozen=True)
class TrainingCurvesView:
    """Losses, learning rate, gradient norm, weight norms and update ratios over the steps; the last two in numbers."""

    curves: TrainingCurves

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        curves = self.curves
        last = int(curves.steps[-1])
        yield Text(f"Training · {printable(curves.run)} · {plural(len(curves.steps), 'report')}", style="bold")
        wide = options.max_width >= _WIDE
        for title, plot in _plots(curves, float(last), wide):
            yield Text(title, style="bold")
            yield plot
        if not curves.groups:
            yield Text(_NO_SIZES, style="dim")
            return
        yield from _table(curves, options.max_width >= _NARROW)


def _plots(curves: TrainingCurves, last: float, wide: bool) -> Iterator[tuple[str, Plot]]:
    """Titles and plots, of what has two points or more."""
    losses = [_series("training", curves.steps, curves.losses, "cyan")]
    if np.isfinite(curves.objectives).any():
        losses.append(_series("with smoothing", curves.steps, curves.objectives, "dim cyan"))
    if len(curves.evaluated_steps):
        losses.append(_series("validation", curves.evaluated_steps, curves.evaluated_losses, "bold yellow", "●"))
    rates = _series("η", curves.steps, curves.learning_rates, "green")
    gradients = _series("‖g‖", curves.steps, curves.grad_norms, "magenta")
    drawn = [
        ("Loss, nats a token", losses, _LOSS_LINES),
        ("Learning rate η", [rates], _SMALL_LINES),
        ("Gradient norm ‖g‖, before clipping", [gradients], _SMALL_LINES),
    ]
    if curves.groups:
        begins = _first_measured(curves)
        grown = curves.weight_norms / np.take_along_axis(curves.weight_norms, begins[:, None], axis=1)
        with np.errstate(divide="ignore"):
            sizes = np.log10(np.where(curves.update_ratios > 0, curves.update_ratios, np.nan))
        healthy = _series("rule of thumb", curves.steps, np.full(len(curves.steps), np.log10(HEALTHY)), "dim", "─")
        drawn += [
            (
                f"Weight norm ‖w‖ by group, as a multiple of its first, at {_steps(curves, begins)}",
                _grouped(curves, grown),
                _NORM_LINES,
            ),
            (
                "Update ratio log₁₀ ‖Δw‖ / ‖w‖ of a step by group: −3 is one part in a thousand",
                [healthy, *_grouped(curves, sizes, named=wide)],
                _RATIO_LINES,
            ),
        ]
    if len(curves.steps) < 2:
        return
    for title, series, height in drawn:
        yield title, Plot(tuple(series), "step", height, (0.0, last), gutter=_GUTTER)


def _first_measured(curves: TrainingCurves) -> NDArray[np.int64]:
    """The first report of each group that has a norm; a run may have begun before they were recorded.

    Shape:
        returns: (groups,)
    """
    return np.isfinite(curves.weight_norms).argmax(axis=1)


def _steps(curves: TrainingCurves, begins: NDArray[np.int64]) -> str:
    """In words: "step 10"; "steps 10 to 30" where groups begin at different ones."""
    steps = sorted({int(curves.steps[begin]) for begin in begins})
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"


def _series(
    name: str, steps: NDArray[np.int64], values: NDArray[np.float64], style: str, marker: str = "", mark: str = ""
) -> Series:
    return Series(name, tuple(map(float, steps)), tuple(map(float, values)), style, marker, mark)


def _grouped(curves: TrainingCurves, rows: NDArray[np.float64], *, named: bool = False) -> list[Series]:
    names = [_name(group) if named else "" for group in curves.groups]
    return [
        _series(name, curves.steps, row, color(number), mark=letter(number))
        for number, (name, row) in enumerate(zip(names, rows, strict=True))
    ]


def _name(group: str) -> str:
    return printable(group.replace("_", "-"))


def _table(curves: TrainingCurves, with_words: bool) -> Iterator[Grid | Text]:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(no_wrap=True, min_width=12)
    for _ in range(4):
        grid.add_column(justify="right")
    if with_words:
        grid.add_column()
    begins = _first_measured(curves)
    heads = ("", "", "‖w‖ first", "‖w‖ last", "‖Δw‖/‖w‖ median", "‖Δw‖/‖w‖ last")
    grid.add_row(*(Text(head, "dim") for head in heads))
    for number, name in enumerate(curves.groups):
        norms, ratios = curves.weight_norms[number], curves.update_ratios[number]
        typical = float(curves.typical_ratios[number])
        grid.add_row(
            Text(letter(number), color(number)),
            Text(_name(name), "bold" if not number else ""),
            f"{norms[begins[number]]:.4g}",
            f"{norms[-1]:.4g}",
            Text(f"{typical:.1e}", "bold"),
            f"{ratios[-1]:.1e}",
            *([Text(_said(typical), "dim")] if with_words else []),
        )
    yield grid
    yield Text(
        "Rule of thumb: a step moves weights by about a thousandth of their length (1e-3); the ratio rises and falls "
        "with the learning rate. Far above, weights are thrown about and the loss is unsteady: lower the rate. Far "
        "below, they hardly learn: raise it.",
        style="dim",
    )


def _said(ratio: float) -> str:
    if not np.isfinite(ratio):
        return "no update"
    if HEALTHY / _FACTOR <= ratio <= HEALTHY * _FACTOR:
        return "near 1e-3"
    return f"{ratio / HEALTHY:.2g} × 1e-3"


def training_curves_table(curves: TrainingCurves) -> Table:
    """A row a report."""
    columns = ["step", "loss", "learning_rate", "grad_norm"]
    columns += [f"{what}.{name}" for what in ("weight_norm", "update_ratio") for name in curves.groups]
    parts = (curves.losses, curves.learning_rates, curves.grad_norms, *curves.weight_norms, *curves.update_ratios)
    rows = zip(curves.steps.tolist(), *(part.tolist() for part in parts), strict=True)
    return Table(columns, ([None if number != number else number for number in row] for row in rows))
