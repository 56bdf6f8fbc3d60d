"""Training curves: loss, evaluations, learning rate, and the norms of gradients and weights; over steps or time."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import plural
from tfcli.draw.safe import printable
from tfcli.draw.tables import CsvTable, columns, dim, heading
from tfcli.records.evaluation import loss_unit
from tfcli.records.runs import EvaluationPoint, History, RunDetail, StepPoint, TrainingCurves

By = Literal["step", "tokens", "time"]
_Plots = Iterator[tuple[str, list[Series], int]]  # titles, series and lines
_COLORS = ("cyan", "yellow", "magenta", "green", "red", "blue", "bright_cyan", "bright_yellow")  # one a run, in turns

CURVES = {  # losses of a training: style and marker
    "training loss": ("cyan", ""),
    "validation loss": ("bold yellow", "●"),
    "whole part": ("bold green", "◆"),
    "spike": ("bold red", "▲"),
}

_WATCHED = {"induction": "induction score", "previous": "previous-token score", "in_context": "gain in context, nats"}
_GUTTER = 6
_LOSS_LINES, _RATE_LINES, _COMPARED_LINES = 10, 3, 12
_EARLY = 0.1  # share of the x axis whose losses, far above the rest, do not set the scale of a comparison


def letter(number: int) -> str:
    """What a compared run is called in a plot: a to z, and from a again."""
    return chr(ord("a") + number % 26)


def color(number: int) -> str:
    """The colour of a compared run."""
    return _COLORS[number % len(_COLORS)]


def letters(runs: Iterable[int]) -> Text:
    """What compared runs are called, each in its colour."""
    return Text.assemble(*((letter(run), f"bold {color(run)}") for run in runs))


def run_plots(history: History) -> Iterator[Plot]:
    """One run: the training loss with its evaluations and spikes, and the learning rate under it."""
    training, validation = history.training, history.validation
    if len(training) < 2 and len(validation) < 2:
        return
    whole = sorted(history.whole, key=lambda point: point.step)
    spikes, steps = [point for point in training if point.spike], [point.step for point in training]
    losses: list[Sequence[StepPoint | EvaluationPoint]] = [training, validation, whole, spikes]
    series = [
        Series(name, [point.step for point in points], [point.loss for point in points], *how)
        for (name, how), points in zip(CURVES.items(), losses, strict=True)
    ]
    series.insert(3, Series("with smoothing", steps, [point.objective for point in training], "dim cyan"))
    drawn = tuple(one for one in series if one.name == "training loss" or any(y is not None for y in one.ys))
    x_range = (0.0, float(max(point.step for points in (training, validation) for point in points[-1:])))
    rates = Series("learning rate", steps, [point.learning_rate for point in training], "green")
    yield Plot(drawn, "step", _LOSS_LINES, x_range, gutter=_GUTTER)
    yield Plot((rates,), "step", _RATE_LINES, x_range, gutter=_GUTTER)
    for _, watched, lines in watched_plots([one.step for one in validation], [one.watched for one in validation]):
        yield Plot(tuple(watched), "step", lines, x_range, gutter=_GUTTER)


def watched_plots(steps: Sequence[int] | NDArray[np.int64], watched: Sequence[Mapping[str, float | None]]) -> _Plots:
    """Titles, series and lines of what train.watch has measured at each evaluation."""
    for number, name in enumerate(dict.fromkeys(name for one in watched for name in one)):
        series = Series(_WATCHED.get(name, name), steps, [one.get(name) for one in watched], color(number))
        yield f"{series.name}, of random tokens read twice", [series], _SMALL_LINES


def curves_picture(name: str, history: History) -> Group:
    """The run's name over its plots, as a file shows them."""
    return Group(Text(printable(name), "bold"), *(part for plot in run_plots(history) for part in ("", plot)))


def compared_plots(runs: Sequence[RunDetail], groups: Sequence[Sequence[int]], by: By) -> Iterator[tuple[str, Plot]]:
    """Titles and plots of several runs: the validation loss, if evaluations make a curve, and the training loss.

    Args:
        runs: The compared runs.
        groups: Places of runs that differ in their seed alone. Each group is one curve, the mean
            of its runs, over a band from the lowest to the highest.
        by: What the x axis shows.
    """
    histories = [run.history for run in runs]
    units = {loss_unit(run.objective) for run in runs}
    unit = units.pop() if len(units) == 1 else "nats"
    validation_title = f"Validation loss, {unit}"
    curves: dict[str, list[Sequence[StepPoint] | Sequence[EvaluationPoint]]] = {
        validation_title: [history.validation for history in histories],
        f"Training loss, {unit}": [history.training for history in histories],
    }
    grouped = {place for group in groups for place in group}
    lines = [tuple(group) for group in groups]
    lines += [(place,) for place in range(len(runs)) if place not in grouped]
    for title, points in curves.items():
        drawn = [one for one in points if len(one) > 1]
        if not drawn or (title == validation_title and len(drawn) < len(points)):
            continue
        end = max(_x(one[-1], by) for one in drawn)
        label, divisor = _axis(by, end)
        series = []
        for places in sorted(lines):
            curves_of_line = [_curve(points[place], by, divisor) for place in places]
            name = f"mean of {letters(places).plain}" if len(places) > 1 else ""
            series.append(_mean_series(curves_of_line, places[0], name))
        scale = _scale(series, end / divisor)
        x_range = (0.0, end / divisor)
        yield title, Plot(tuple(series), label, _COMPARED_LINES, x_range, scale, gutter=_GUTTER)


_Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # x and loss of every point


def _curve(points: Sequence[StepPoint] | Sequence[EvaluationPoint], by: By, divisor: float) -> _Curve:
    xs = np.array([_x(point, by) / divisor for point in points])
    losses = [math.nan if point.loss is None else point.loss for point in points]
    return xs, np.array(losses)


def _mean_series(curves: Sequence[_Curve], place: int, name: str) -> Series:
    """The curve of one run, or the mean of several with their band.

    The curves of several are interpolated at the points of the first, as far as all of them reach.
    """
    xs, ys = curves[0]
    if len(curves) == 1:
        return Series(name, xs, ys, color(place), letter=letter(place))
    finite = [(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in curves]
    if any(len(x) == 0 for x, _ in finite):
        return Series(name, xs, np.full(len(xs), math.nan), color(place), letter=letter(place))
    first = max(x[0] for x, _ in finite)
    last = min(x[-1] for x, _ in finite)
    shared = xs[(xs >= first) & (xs <= last)]
    heights = np.array([np.interp(shared, x, y) for x, y in finite])
    band = (heights.min(axis=0), heights.max(axis=0))
    return Series(name, shared, heights.mean(axis=0), color(place), letter=letter(place), band=band)


def _x(point: StepPoint | EvaluationPoint, by: By) -> float:
    return float({"step": point.step, "tokens": point.tokens, "time": point.seconds}[by])


def _axis(by: By, end: float) -> tuple[str, float]:
    """The name of the x axis, and what its numbers are divided by."""
    large = {"tokens": (2e7, "million tokens", 1e6), "time": (600, "minutes", 60.0)}
    if by in large and end >= large[by][0]:
        return large[by][1:]
    return {"time": "seconds"}.get(by, by), 1.0


def _scale(series: Sequence[Series], end: float) -> tuple[float, float] | None:
    """The range of losses after the first part of the axis, bands included; None if there are too few."""
    late: list[float] = []
    for line in series:
        is_late = np.asarray(line.xs) >= _EARLY * end
        for heights in (np.asarray(line.ys), *(line.band or ())):
            late += heights[is_late & np.isfinite(heights)].tolist()
    return (min(late), max(late)) if len(late) > 1 and max(late) > min(late) else None


HEALTHY = 1e-3
_FACTOR = 10**0.5  # how far from `HEALTHY` a ratio may be to be called near it: half a power of ten
_WIDE_GUTTER = 7
_NARROW, _WIDE = 72, 100  # columns of a terminal from which on the table has words, and a plot its lines' names
_TRAINING_LINES, _SMALL_LINES, _NORM_LINES, _RATIO_LINES = 9, 4, 6, 10

_NO_SIZES = "This run was trained before tfcli recorded norms of weights and update ratios; a new training does."


class TrainingCurvesView(View[TrainingCurves]):
    """Losses, learning rate, gradient norm, weight norms and update ratios over the steps; the last two in numbers."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        curves = self.record
        yield from heading(f"Training · {printable(curves.run)} · {plural(len(curves.steps), 'report')}")
        if len(curves.steps) > 1:
            for title, series, height in _plots(curves, named=options.max_width >= _WIDE):
                yield from heading(title)
                yield Plot(tuple(series), "step", height, (0.0, float(curves.steps[-1])), gutter=_WIDE_GUTTER)
        if curves.groups:
            yield from _table(curves, options.max_width >= _NARROW)
        else:
            yield from dim(_NO_SIZES)


def _plots(curves: TrainingCurves, *, named: bool) -> _Plots:
    """Titles, series and lines of the plots; `named`: there is room for the names of groups."""
    losses = [Series("training", curves.steps, curves.losses, "cyan")]
    if np.isfinite(curves.objectives).any():
        losses.append(Series("with smoothing", curves.steps, curves.objectives, "dim cyan"))
    if len(curves.evaluated_steps):
        losses.append(Series("validation", curves.evaluated_steps, curves.evaluated_losses, "bold yellow", "●"))
    yield f"Loss, {curves.loss_unit}", losses, _TRAINING_LINES
    yield from watched_plots(curves.evaluated_steps, curves.watched)
    yield "Learning rate η", [Series("η", curves.steps, curves.learning_rates, "green")], _SMALL_LINES
    gradients = Series("‖g‖", curves.steps, curves.grad_norms, "magenta")
    yield "Gradient norm ‖g‖, before clipping", [gradients], _SMALL_LINES
    if not curves.groups:
        return
    begins = np.isfinite(curves.weight_norms).argmax(axis=1)  # a run may have begun before norms were recorded
    grown = curves.weight_norms / np.take_along_axis(curves.weight_norms, begins[:, None], axis=1)
    steps = sorted({int(curves.steps[begin]) for begin in begins})
    first = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    title = f"Weight norm ‖w‖ by group, as a multiple of its first, at {first}"
    yield title, _grouped(curves, grown), _NORM_LINES
    sizes = np.log10(np.where(curves.update_ratios > 0, curves.update_ratios, np.nan))
    healthy = Series("rule of thumb", curves.steps, np.full(len(curves.steps), np.log10(HEALTHY)), "dim", "─")
    title = "Update ratio log₁₀ ‖Δw‖ / ‖w‖ of a step by group: −3 is one part in a thousand"
    yield title, [healthy, *_grouped(curves, sizes, named=named)], _RATIO_LINES


def _grouped(curves: TrainingCurves, rows: NDArray[np.float64], *, named: bool = False) -> list[Series]:
    return [
        Series(printable(name.replace("_", "-")) if named else "", curves.steps, row, color(n), letter=letter(n))
        for n, (name, row) in enumerate(zip(curves.groups, rows, strict=True))
    ]


def _table(curves: TrainingCurves, with_words: bool) -> Iterator[Table | Text]:
    grid = columns("wlrrrr" + "w" * with_words, "", "", "‖w‖ first", "‖w‖ last", "‖Δw‖/‖w‖ median", "‖Δw‖/‖w‖ last")
    grid.columns[1].min_width = 12
    begins = np.isfinite(curves.weight_norms).argmax(axis=1)
    for number, name in enumerate(curves.groups):
        norms, ratios = curves.weight_norms[number], curves.update_ratios[number]
        typical = float(curves.typical_ratios[number])
        begin = Text(letter(number), color(number)), Text(printable(name.replace("_", "-")), "" if number else "bold")
        sizes = f"{norms[begins[number]]:.4g}", f"{norms[-1]:.4g}"
        moves = Text(f"{typical:.1e}", "bold"), f"{ratios[-1]:.1e}"
        grid.add_row(*begin, *sizes, *moves, *([Text(_said(typical), "dim")] if with_words else []))
    yield grid
    yield from dim(
        "Rule of thumb: a step moves weights by about a thousandth of their length (1e-3). Far above, the loss is "
        "unsteady: lower the learning rate. Far below, weights hardly learn: raise it."
    )


def _said(ratio: float) -> str:
    if not np.isfinite(ratio):
        return "no update"
    if HEALTHY / _FACTOR <= ratio <= HEALTHY * _FACTOR:
        return "near 1e-3"
    return f"{ratio / HEALTHY:.2g} × 1e-3"


def training_curves_table(curves: TrainingCurves) -> CsvTable:
    """A row a report."""
    names = ["step", "loss", "learning_rate", "grad_norm"]
    names += [f"{what}.{name}" for what in ("weight_norm", "update_ratio") for name in curves.groups]
    parts = (curves.losses, curves.learning_rates, curves.grad_norms, *curves.weight_norms, *curves.update_ratios)
    rows = zip(curves.steps.tolist(), *(part.tolist() for part in parts), strict=True)
    return CsvTable(names, ([None if number != number else number for number in row] for row in rows))
