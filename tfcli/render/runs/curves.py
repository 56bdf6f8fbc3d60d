"""The curves of runs: loss, evaluations, learning rate; over steps, tokens or time."""

from collections.abc import Iterator, Sequence
from typing import Literal

from tfcli.records.runs import EvaluationPoint, History, RunDetail, StepPoint
from tfcli.render.curve import Plot, Series

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
