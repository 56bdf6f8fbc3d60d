"""The curves of runs: loss, evaluations, learning rate; over steps, tokens or time."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import plural
from tfcli.draw.safe import printable
from tfcli.draw.tables import CsvTable
from tfcli.records.runs import EvaluationPoint, History, RunDetail, StepPoint, TrainingCurves

By = Literal["step", "tokens", "time"]

COLORS = ("cyan", "yellow", "magenta", "green", "red", "blue", "bright_cyan", "bright_yellow")
"""One a run, in order; from the beginning again where there are more runs."""

_GUTTER = 6
_LOSS_LINES, _RATE_LINES, _COMPARED_LINES = 10, 3, 12
_EARLY = 0.1  # share of the x axis whose losses, far above the rest, do not set the scale of a comparison


def letter(number: int) -> str:
    """What a compared run is called in a plot: a, b, c, …"""
    return chr(ord("a") + number % 26)


def color(number: int) -> str:
    """The colour of a compared run."""
    return COLORS[number % len(COLORS)]


def run_plots(history: History) -> Iterator[Plot]:
    """One run: the training loss with its evaluations and spikes, and the learning rate under it."""
    training, validation = history.training, history.validation
    if len(training) < 2 and len(validation) < 2:
        return
    spikes = [point for point in training if point.spike]
    series = [_series("training loss", training, "cyan")]
    if validation:
        series.append(_series("validation loss", validation, "bold yellow", "●"))
    if history.whole:
        series.append(_series("whole part", sorted(history.whole, key=lambda point: point.step), "bold green", "◆"))
    if any(point.objective is not None for point in training):
        smoothed = tuple(point.objective for point in training)
        series.append(Series("with smoothing", tuple(float(p.step) for p in training), smoothed, "dim cyan"))
    if spikes:
        series.append(_series("spike", spikes, "bold red", "▲"))
    x_range = (0.0, float(max(point.step for points in (training, validation) for point in points[-1:])))
    yield Plot(tuple(series), "step", _LOSS_LINES, x_range, gutter=_GUTTER)
    rates = Series(
        "learning rate", tuple(float(p.step) for p in training), tuple(p.learning_rate for p in training), "green"
    )
    yield Plot((rates,), "step", _RATE_LINES, x_range, gutter=_GUTTER)


def compared_plots(runs: Sequence[RunDetail], by: By) -> Iterator[tuple[str, Plot]]:
    """Titles and plots of several runs over each other: the validation loss, where evaluations make a curve, and the
    training loss."""
    histories = [run.history for run in runs]
    curves: dict[str, list[Sequence[StepPoint] | Sequence[EvaluationPoint]]] = {
        "Validation loss": [history.validation for history in histories],
        "Training loss": [history.training for history in histories],
    }
    for title, points in curves.items():
        drawn = [one for one in points if len(one) > 1]
        if not drawn or (title == "Validation loss" and len(drawn) < len(points)):
            continue
        end = max(_x(one[-1], by) for one in drawn)
        label, unit = _axis(by, end)
        series = tuple(
            Series(
                "",
                tuple(_x(point, by) / unit for point in one),
                tuple(point.loss for point in one),
                color(number),
                letter=letter(number),
            )
            for number, one in enumerate(points)
        )
        scale = _scale(series, end / unit)
        yield title, Plot(series, label, _COMPARED_LINES, (0.0, end / unit), scale, _GUTTER)


def _series(name: str, points: Sequence[StepPoint | EvaluationPoint], style: str, marker: str = "") -> Series:
    return Series(name, tuple(float(p.step) for p in points), tuple(p.loss for p in points), style, marker)


def _x(point: StepPoint | EvaluationPoint, by: By) -> float:
    return float({"step": point.step, "tokens": point.tokens, "time": point.seconds}[by])


def _axis(by: By, end: float) -> tuple[str, float]:
    """The name of the x axis, and what its numbers are divided by."""
    if by == "step":
        return "step", 1.0
    if by == "tokens":
        return ("million tokens", 1e6) if end >= 2e7 else ("tokens", 1.0)
    return ("minutes", 60.0) if end >= 600 else ("seconds", 1.0)


def _scale(series: Sequence[Series], end: float) -> tuple[float, float] | None:
    """The losses behind the first part of the axis; None where there are too few."""
    late = [y for one in series for x, y in zip(one.xs, one.ys, strict=True) if y is not None and x >= _EARLY * end]
    return (min(late), max(late)) if len(late) > 1 and max(late) > min(late) else None


HEALTHY = 1e-3
_FACTOR = 10**0.5
"""How far from `HEALTHY` a ratio may be to be called near it: half a power of ten."""
_TRAINING_CURVES_GUTTER = 7
_NARROW, _WIDE = 72, 100
"""Columns of a terminal from which on the table has a column of words, and a plot the names of its lines."""
_TRAINING_CURVES_LOSS_LINES, _SMALL_LINES, _NORM_LINES, _RATIO_LINES = 9, 4, 6, 10

_NO_SIZES = (
    "Norms of weights and update ratios are not in this run's metrics: it was trained before tfcli recorded them. "
    "A new training records them at every report."
)


class TrainingCurvesView(View[TrainingCurves]):
    """Losses, learning rate, gradient norm, weight norms and update ratios over the steps; the last two in numbers."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        curves = self.record
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
    losses = [_training_curves_series("training", curves.steps, curves.losses, "cyan")]
    if np.isfinite(curves.objectives).any():
        losses.append(_training_curves_series("with smoothing", curves.steps, curves.objectives, "dim cyan"))
    if len(curves.evaluated_steps):
        losses.append(
            _training_curves_series("validation", curves.evaluated_steps, curves.evaluated_losses, "bold yellow", "●")
        )
    rates = _training_curves_series("η", curves.steps, curves.learning_rates, "green")
    gradients = _training_curves_series("‖g‖", curves.steps, curves.grad_norms, "magenta")
    drawn = [
        ("Loss, nats a token", losses, _TRAINING_CURVES_LOSS_LINES),
        ("Learning rate η", [rates], _SMALL_LINES),
        ("Gradient norm ‖g‖, before clipping", [gradients], _SMALL_LINES),
    ]
    if curves.groups:
        begins = _first_measured(curves)
        grown = curves.weight_norms / np.take_along_axis(curves.weight_norms, begins[:, None], axis=1)
        with np.errstate(divide="ignore"):
            sizes = np.log10(np.where(curves.update_ratios > 0, curves.update_ratios, np.nan))
        healthy = _training_curves_series(
            "rule of thumb", curves.steps, np.full(len(curves.steps), np.log10(HEALTHY)), "dim", "─"
        )
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
        yield title, Plot(tuple(series), "step", height, (0.0, last), gutter=_TRAINING_CURVES_GUTTER)


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


def _training_curves_series(
    name: str, steps: NDArray[np.int64], values: NDArray[np.float64], style: str, marker: str = "", mark: str = ""
) -> Series:
    return Series(name, tuple(map(float, steps)), tuple(map(float, values)), style, marker, mark)


def _grouped(curves: TrainingCurves, rows: NDArray[np.float64], *, named: bool = False) -> list[Series]:
    names = [_name(group) if named else "" for group in curves.groups]
    return [
        _training_curves_series(name, curves.steps, row, color(number), mark=letter(number))
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


def training_curves_table(curves: TrainingCurves) -> CsvTable:
    """A row a report."""
    columns = ["step", "loss", "learning_rate", "grad_norm"]
    columns += [f"{what}.{name}" for what in ("weight_norm", "update_ratio") for name in curves.groups]
    parts = (curves.losses, curves.learning_rates, curves.grad_norms, *curves.weight_norms, *curves.update_ratios)
    rows = zip(curves.steps.tolist(), *(part.tolist() for part in parts), strict=True)
    return CsvTable(columns, ([None if number != number else number for number in row] for row in rows))
