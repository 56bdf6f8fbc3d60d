"""Runs in a list, a line each; a name that is to be typed is not cut, and stands above its line where it is long."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.runs import RunSummary
from tfcli.render.numbers import duration, short
from tfcli.render.safe import fit, printable, widest

_HEADINGS = ("run", "state", "model", "params", "steps", "best loss", "time", "age")
_LEFT = 3  # columns of words; those behind are numbers, which stand on the right
_LEAST_NAME, _FAIR_NAME = 12, 18
_STATE_STYLES = {"finished": "green", "running": "bold cyan", "interrupted": "yellow", "imported": "", "damaged": "red"}


@dataclass(frozen=True)
class RunList:
    """The list under its headings."""

    runs: Sequence[RunSummary]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [_cells(run) for run in self.runs]
        healthy = [row for row, run in zip(rows, self.runs, strict=True) if run.problem is None]
        widths = [widest(column) for column in zip(_HEADINGS, *healthy, strict=True)]
        widths[0], widths[1] = (widest(tuple(row[i] for row in (_HEADINGS, *rows))) for i in (0, 1))
        gaps, behind = len(widths) - 1, sum(widths[1:])
        gap = 2 if behind + 2 * gaps + min(widths[0], _FAIR_NAME) <= options.max_width else 1
        room = options.max_width - behind - gap * gaps
        widths[0] = min(widths[0], max(_LEAST_NAME, room))
        yield _line(_HEADINGS, widths, gap, options.max_width, "dim")
        for run, (name, *others) in zip(self.runs, rows, strict=True):
            if widest((name,)) > widths[0]:
                yield Text(fit(name, min(widest((name,)), options.max_width)), "bold", no_wrap=True)
                name = ""
            if run.problem is None:
                yield _line((name, *others), widths, gap, options.max_width, _STATE_STYLES[run.state])
            else:
                yield _damaged_line(run, name, widths, gap, options.max_width)


def _cells(run: RunSummary) -> tuple[str, ...]:
    best = "-" if run.best_loss is None else f"{run.best_loss:.4f} @{run.best_step}"
    return (
        printable(run.name),
        run.state,
        (run.architecture or "-").replace("encoder-decoder", "enc-dec"),
        "-" if run.parameters is None else short(run.parameters),
        _steps(run),
        best,
        "-" if run.seconds is None else _brief(run.seconds),
        _brief(max(1.0, run.age_seconds)),
    )


def _steps(run: RunSummary) -> str:
    if run.step is None:
        return "-"
    return str(run.step) if run.step == run.total_steps else f"{run.step}/{run.total_steps}"


def _brief(seconds: float) -> str:
    """A time in its largest unit."""
    return " ".join(duration(seconds).split()[:2])


def _line(cells: Sequence[str], widths: Sequence[int], gap: int, width: int, state_style: str) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for number, (cell, room) in enumerate(zip(cells, widths, strict=True)):
        style = "dim" if state_style == "dim" else ("bold" if number == 0 else state_style if number == 1 else "")
        text.append(fit(cell, room, "left" if number < _LEFT else "right"), style)
        text.append(" " * gap)
    text.rstrip()
    text.truncate(width)
    return text


def _damaged_line(run: RunSummary, name: str, widths: Sequence[int], gap: int, width: int) -> Text:
    begin = Text.assemble((fit(name, widths[0]), "bold"), " " * gap, (fit(run.state, widths[1]), "red"), " " * gap)
    # What is wrong names the file by its whole path, which the line says already.
    problem = printable(run.problem or "").replace(f"{printable(run.path)}/", "")
    room = max(0, width - begin.cell_len)
    return begin.append(fit(problem, min(room, len(problem))), "dim")
