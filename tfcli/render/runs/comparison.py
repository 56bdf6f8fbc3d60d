"""Runs side by side: what they reached, on what they differ, and their curves over each other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.runs import RunComparison, RunDetail, SeedSpread, SettingRow
from tfcli.render.numbers import duration, exact, percent, short
from tfcli.render.runs.curves import By, color, compared_plots, letter
from tfcli.render.runs.detail import value_text
from tfcli.render.safe import fit, printable, widest

_LONGEST_VALUE = 24
_BEST = "*"


@dataclass(frozen=True)
class ComparisonView:
    """A table of results with the best marked, the settings that differ, the curves, and what to beware of."""

    comparison: RunComparison
    by: By = "step"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        runs = self.comparison.runs
        yield from _results(runs, self.comparison.comparable, options.max_width)
        yield Text("\nSettings that differ", style="bold")
        if not self.comparison.settings:
            yield Text("none")
        elif _table_width(self.comparison.settings, len(runs)) <= options.max_width:
            yield from _settings_table(self.comparison.settings, len(runs))
        else:
            yield from _settings_lines(self.comparison.settings, options.max_width)
        if self.comparison.spreads:
            yield Text("\nBest loss over seeds", style="bold")
            yield from _spreads(self.comparison.spreads)
        for title, plot in compared_plots(runs, self.by):
            yield Text(f"\n{title}", style="bold")
            yield plot
        for note in self.comparison.notes:
            yield Text(f"\n{note}", style="yellow")


@dataclass(frozen=True)
class _Column:
    """A figure of every run; `better` picks the best of them, where there is one."""

    heading: str
    text: Callable[[RunDetail], str]
    value: Callable[[RunDetail], float | None] = lambda run: None
    better: Callable[[Sequence[float]], float] | None = None
    of_losses: bool = False


_COLUMNS = (
    _Column(
        "best loss",
        lambda run: _number(run.summary.best_loss),
        lambda run: run.summary.best_loss,
        min,
        of_losses=True,
    ),
    _Column("at step", lambda run: "-" if run.summary.best_step is None else exact(run.summary.best_step)),
    _Column("bits/byte", lambda run: _number(run.bits_per_byte), lambda run: run.bits_per_byte, min),
    _Column(
        "accuracy",
        lambda run: "-" if (value := _accuracy(run)) is None else percent(value),
        lambda run: _accuracy(run),
        max,
        of_losses=True,
    ),
    _Column("params", lambda run: "-" if run.summary.parameters is None else short(run.summary.parameters)),
    _Column("tokens", lambda run: "-" if run.summary.tokens is None else short(run.summary.tokens)),
    _Column("time", lambda run: "-" if run.summary.seconds is None else duration(run.summary.seconds)),
)


def _results(runs: Sequence[RunDetail], comparable: bool, width: int) -> Iterator[Text]:
    shown = [column for column in _COLUMNS if any(column.text(run) != "-" for run in runs)]
    cells = [[column.heading, *_marked(column, runs, comparable)] for column in shown]
    widths = [widest(tuple(column)) for column in cells]
    names = [printable(run.summary.name) for run in runs]
    room = min(widest((*names, "run")), max(10, width - 2 - sum(widths) - 2 * len(widths)))
    for row in range(len(runs) + 1):
        text = Text(no_wrap=True, overflow="crop")
        if row:
            text.append(f"{letter(row - 1)} ", f"bold {color(row - 1)}")
            text.append(fit(names[row - 1], room), "bold")
        else:
            text.append("  " + fit("run", room), "dim")
        for column, column_width in zip(cells, widths, strict=True):
            style = "" if row else "dim"
            text.append("  ").append(fit(column[row], column_width, "right"), style)
        text.truncate(width)
        yield text


def _marked(column: _Column, runs: Sequence[RunDetail], comparable: bool) -> list[str]:
    """The column's texts, each with a place for the mark behind it; losses of different kinds have no best."""
    texts = [column.text(run) for run in runs]
    values = [column.value(run) for run in runs]
    known = [value for value in values if value is not None]
    if column.better is None or len(set(known)) < 2 or (column.of_losses and not comparable):
        return texts
    best = column.better(known)
    return [text + (_BEST if value == best else " ") for text, value in zip(texts, values, strict=True)]


def _table_width(rows: Sequence[SettingRow], runs: int) -> int:
    return widest(tuple(row.key for row in rows)) + sum(2 + _column_width(rows, run) for run in range(runs))


def _column_width(rows: Sequence[SettingRow], run: int) -> int:
    return min(_LONGEST_VALUE, widest(tuple(value_text(row.values[run]) for row in rows)))


def _settings_table(rows: Sequence[SettingRow], runs: int) -> Iterator[Text]:
    keys = widest(tuple(row.key for row in rows))
    heading = Text(" " * keys)
    for run in range(runs):
        heading.append("  ").append(fit(letter(run), _column_width(rows, run)), f"bold {color(run)}")
    yield heading
    for row in rows:
        text = Text(no_wrap=True, overflow="crop").append(fit(row.key, keys), "dim")
        for run, value in enumerate(row.values):
            text.append("  ").append(fit(value_text(value), _column_width(rows, run)))
        yield text


def _settings_lines(rows: Sequence[SettingRow], width: int) -> Iterator[Text]:
    """Where columns have no room: each value once, behind the letters of the runs that have it."""
    keys = widest(tuple(row.key for row in rows))
    for row in rows:
        holders: dict[str, list[int]] = {}
        for run, value in enumerate(row.values):
            holders.setdefault(value_text(value), []).append(run)
        lines = [Text(fit(row.key, keys), "dim")]
        for value, numbers in holders.items():
            part = Text("  ")
            for number in numbers:
                part.append(letter(number), f"bold {color(number)}")
            part.append(f" {fit(value, min(widest((value,)), max(8, width - keys - len(numbers) - 3)))}")
            if lines[-1].cell_len + part.cell_len > width:
                lines.append(Text(" " * keys))
            lines[-1].append(part)
        yield from lines


def _spreads(spreads: Sequence[SeedSpread]) -> Iterator[Text]:
    """A line a group: its runs, mean ± standard deviation, and from the best to the worst."""
    letters = ["".join(letter(run) for run in spread.runs) for spread in spreads]
    for spread, runs in zip(spreads, letters, strict=True):
        text = Text()
        for run in spread.runs:
            text.append(letter(run), f"bold {color(run)}")
        text.append(" " * (widest(tuple(letters)) - len(runs)))
        text.append(f"  {spread.mean:.4f} ± {spread.deviation:.4f}", "bold")
        text.append(f"  {spread.lowest:.4f} … {spread.highest:.4f}")
        apart = ", ".join(f"{key} = {value_text(value)}" for key, value in spread.settings.items())
        yield text.append(f"  {apart}" if apart else "", "dim")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _accuracy(run: RunDetail) -> float | None:
    return run.history.best.accuracy if run.history.best is not None else None
