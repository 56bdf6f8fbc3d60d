"""Runs in a list, one in full, and several side by side."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import decimals, duration, exact, percent, plural, short
from tfcli.draw.safe import fit, printable, widest
from tfcli.draw.tables import CsvTable, aligned, columns, heading, to_csv
from tfcli.records import runs as records
from tfcli.records.evaluation import loss_unit
from tfcli.runs.curves_view import By, color, compared_plots, letter, letters, run_plots

_HEADINGS = ("run", "state", "model", "params", "steps", "best loss", "time", "age")
_LEFT = 3  # columns of words; those behind are numbers, which stand on the right
_LEAST_NAME, _FAIR_NAME = 12, 18
_STATE_STYLES = {"finished": "green", "running": "bold cyan", "interrupted": "yellow", "imported": "", "damaged": "red"}


class RunList(View[Sequence[records.RunSummary]]):
    """The list under its headings."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [_cells(run) for run in self.record]
        healthy = [row for row, run in zip(rows, self.record, strict=True) if run.problem is None]
        widths = [widest(column) for column in zip(_HEADINGS, *healthy, strict=True)]
        widths[0], widths[1] = (widest(tuple(row[i] for row in (_HEADINGS, *rows))) for i in (0, 1))
        gaps, behind = len(widths) - 1, sum(widths[1:])
        gap = 2 if behind + 2 * gaps + min(widths[0], _FAIR_NAME) <= options.max_width else 1
        widths[0] = min(widths[0], max(_LEAST_NAME, options.max_width - behind - gap * gaps))
        yield _line(_HEADINGS, widths, gap, options.max_width, "dim")
        for run, (name, *others) in zip(self.record, rows, strict=True):
            if widest((name,)) > widths[0]:
                yield Text(fit(name, min(widest((name,)), options.max_width)), "bold", no_wrap=True)
                name = ""
            if run.problem is None:
                yield _line((name, *others), widths, gap, options.max_width, _STATE_STYLES[run.state])
            else:
                yield _damaged_line(run, name, widths, gap, options.max_width)


def _cells(run: records.RunSummary) -> tuple[str, ...]:
    steps = "-" if run.step is None else str(run.step)
    if run.step is not None and run.step != run.total_steps:
        steps += f"/{run.total_steps}"
    return (
        printable(run.name),
        run.state,
        (run.architecture or "-").replace("encoder-decoder", "enc-dec"),
        "-" if run.parameters is None else short(run.parameters),
        steps,
        "-" if run.best_loss is None else f"{decimals(run.best_loss)} @{run.best_step}",
        "-" if run.seconds is None else _brief(run.seconds),
        _brief(max(1.0, run.age_seconds)),
    )


def _brief(seconds: float) -> str:
    """A time in its largest unit."""
    return " ".join(duration(seconds).split()[:2])


def _line(cells: Sequence[str], widths: Sequence[int], gap: int, width: int, state_style: str) -> Text:
    styles = ["dim"] * len(cells) if state_style == "dim" else ["bold", state_style, *[""] * (len(cells) - 2)]
    text = aligned(zip(cells, widths, styles, strict=True), gap, left=_LEFT)
    text.rstrip()
    text.truncate(width)
    return text


def _damaged_line(run: records.RunSummary, name: str, widths: Sequence[int], gap: int, width: int) -> Text:
    begin = aligned(((name, widths[0], "bold"), (run.state, widths[1], "red"), ("", 0, "")), gap, left=2)
    # What is wrong names the file by its whole path, which the line says already.
    problem = printable(run.problem or "").replace(f"{printable(run.path)}/", "")
    return begin.append(fit(problem, min(max(0, width - begin.cell_len), len(problem))), "dim")


_MOST_SPIKES = 6
_OF = {"moving_average": " of the moving average", "checkpoints": " of the last checkpoints' mean"}


class RunView(View[records.RunDetail]):
    """A run's page."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary = self.record.summary
        size = [] if summary.parameters is None else [f"{short(summary.parameters)} parameters"]
        about = [summary.architecture or "-", *size, summary.state, f"{duration(summary.age_seconds)} old"]
        yield Text.assemble((printable(summary.name), "bold"), (f"  {', '.join(about)}", "dim"))
        yield _named(_facts(self.record))
        if self.record.settings:
            yield from heading("\nSettings that are not the default")
            rows = ((of, "" if of.default is None else f"not {value_text(of.default)}") for of in self.record.settings)
            yield _named(((of.key, value_text(of.value), usual) for of, usual in rows), "lwl")
        for plot in run_plots(self.record.history):
            yield ""
            yield plot
        if self.record.kept:
            yield from heading("\nOn the disk")
            yield _named((kept.name, short(kept.bytes, "B")) for kept in self.record.kept)


def _named(rows: Iterable[tuple[str, ...]], kinds: str = "lw") -> Table:
    table = columns(kinds)
    for name, value, *more in rows:
        table.add_row(Text(printable(name), "dim"), Text(printable(value)), *(Text(one, "dim") for one in more))
    return table


def _facts(run: records.RunDetail) -> Iterator[tuple[str, str]]:
    summary, history = run.summary, run.history
    if run.origin is not None:
        yield "imported from", run.origin
    if run.text is not None:
        documents, more = plural(run.text["train_documents"], "document"), exact(run.text["validation_documents"])
        counts = f"{documents}, {more} more for validation; split {run.text['split']}"
        yield "text", f"{', '.join(run.text['sources'])} ({counts})"
    algorithm, vocab_size, fingerprint = run.tokenizer.values()
    words = [algorithm or "", f"{exact(vocab_size)} ids" if vocab_size else ""]
    yield "tokenizer", f"{', '.join(filter(None, words))} ({fingerprint})"
    yield "model", _model_text(run.model)
    if summary.total_steps is not None:
        steps = f"{exact(summary.step or 0)} of {exact(summary.total_steps)} steps"
        if summary.tokens is not None and summary.seconds is not None:
            steps += f", {short(summary.tokens)} tokens in {duration(summary.seconds)}"
        yield "training", steps
    if history.best is not None:
        bits = ""
        if run.bits_per_byte is not None and math.isfinite(run.bits_per_byte):
            bits = f", {decimals(run.bits_per_byte)} bits per byte"
        yield "best", _evaluation(history.best, run.objective) + bits
        last = (history.whole or history.validation)[-1]
        if last != history.best:
            yield "last", _evaluation(last, run.objective)
    if history.padding:
        yield "padding", f"{percent(history.padding)} of the places in batches"
    spikes = [point.step for point in history.training if point.spike]
    if spikes:
        more = f" and {len(spikes) - _MOST_SPIKES} more" if len(spikes) > _MOST_SPIKES else ""
        yield "spikes", f"at step {', '.join(map(exact, spikes[:_MOST_SPIKES]))}{more}"
    for change in history.changes:
        was, now = value_text(change.from_), value_text(change.to)
        rates = ""
        if change.rate_before is not None and change.rate_after is not None:
            rates = f" (learning rate {change.rate_before:.2e}, then {change.rate_after:.2e})"
        yield "changed", f"after step {exact(change.step)}: {change.key} from {was} to {now}{rates}"


def _model_text(model: Mapping[str, Any]) -> str:
    """A model in a line or two."""
    heads = f"{model['num_heads']} heads"
    if model.get("num_kv_heads") not in (None, model["num_heads"]):
        heads += f" ({model['num_kv_heads']} for keys)"
    layers = f"{plural(model['num_layers'], 'layer')} of {model['d_model']}"
    norm = f"{model['norm']} ({model['norm_placement']})"
    inner = "no feed-forward" if model.get("d_ff") == 0 else model["activation"]
    rest = f"context {model['max_seq_len']}, {model['positions']} positions, {norm}, {inner}"
    return f"{layers}, {heads}, {rest}"


def _evaluation(point: records.EvaluationPoint, objective: str) -> str:
    loss = "not finite" if point.loss is None else f"{decimals(point.loss)} {loss_unit(objective)}"
    accuracy = f", accuracy {percent(point.accuracy)}" if point.accuracy is not None else ""
    part = f" on a sample of {short(point.scored_tokens)} tokens" if point.part == "sample" else ""
    return f"validation loss {loss} at step {exact(point.step)}{_OF.get(point.of, '')}{part}{accuracy}"


def value_text(value: Any) -> str:
    """A setting's value as a person reads it, on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(value_text, value))
    return printable(str(value))


_LONGEST_VALUE = 24
_BEST = "*"


@dataclass(frozen=True)
class ComparisonView:
    """A table of results with the best marked, the settings that differ, the curves, and what to beware of."""

    comparison: records.RunComparison
    by: By = "step"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        runs = self.comparison.runs
        yield from _results(runs, self.comparison.comparable, options.max_width)
        yield from heading("\nSettings that differ")
        yield from _differing(self.comparison.settings, options.max_width) if self.comparison.settings else ["none"]
        spreads = self.comparison.spreads
        if spreads:
            yield from heading("\nBest loss over seeds")
            yield from _spreads(spreads)
        if self.comparison.differences:
            yield from heading("\nDifference of the best losses, paired by seed")
            yield from _differences(self.comparison)
        groups = [spread.runs for spread in spreads]
        for title, plot in compared_plots(runs, groups, self.by):
            yield from heading(f"\n{title}")
            yield plot
        if groups:
            yield Text("A group of seeds is one curve: the mean of its runs over their range.", "dim")
        for note in self.comparison.notes:
            yield Text(f"\n{note}", style="yellow")


_Column = tuple[str, Callable[[records.RunDetail], Any], Callable[[Any], str], Callable[[list[Any]], Any] | None, bool]
"""A figure of every run: its head, its value, how that is written, what picks the best, and whether it is a loss's."""

_COLUMNS: tuple[_Column, ...] = (
    ("best loss", lambda run: run.summary.best_loss, decimals, min, True),
    ("at step", lambda run: run.summary.best_step, exact, None, False),
    ("bits/byte", lambda run: run.bits_per_byte, decimals, min, False),
    ("accuracy", lambda run: getattr(run.history.best, "accuracy", None), percent, max, True),
    ("params", lambda run: run.summary.parameters, short, None, False),
    ("tokens", lambda run: run.summary.tokens, short, None, False),
    ("time", lambda run: run.summary.seconds, duration, None, False),
)


def _results(runs: Sequence[records.RunDetail], comparable: bool, width: int) -> Iterator[Text]:
    """A line for each run, no value of which is ever cut.

    If the names leave no room for the figures, they come first, a line each, and the table begins
    with letters. Figures that still do not fit stand in a second table below.
    """
    figures = [[column[0], *_marked(column, runs, comparable)] for column in _COLUMNS]
    figures = [column for column in figures if any(text != "-" for text in column[1:])]
    names = [printable(run.summary.name) for run in runs]
    name_width = widest((*names, "run"))
    if 2 + name_width + sum(2 + widest(tuple(column)) for column in figures) <= width:
        yield from _block(figures, ["run", *names])
        return
    for place, name in enumerate(names):
        line = letters([place]).append(" ").append(_end_of(name, width - 2), "bold")
        line.no_wrap = True
        yield line
    while figures:
        room = width - 2
        block: list[list[str]] = []
        while figures and (not block or 2 + widest(tuple(figures[0])) <= room):
            room -= 2 + widest(tuple(figures[0]))
            block.append(figures.pop(0))
        yield Text("")
        yield from _block(block, None)


def _block(figures: Sequence[Sequence[str]], names: Sequence[str] | None) -> Iterator[Text]:
    """Some columns under their headings, each line with the letter of its run, and its name if given."""
    for row in range(len(figures[0])):
        text = letters([row - 1]) if row else Text(" ", "dim")
        text.append(" ")
        cells = []
        if names is not None:
            cells.append((names[row], widest(tuple(names)), "bold" if row else "dim"))
        for column in figures:
            cells.append((column[row], widest(tuple(column)), "" if row else "dim"))
        text.append_text(aligned(cells, left=0 if names is None else 1))
        text.no_wrap = True
        yield text


def _end_of(name: str, width: int) -> str:
    """A name, or its end if it is too long: names of runs differ there."""
    if widest((name,)) <= width:
        return name
    while widest((name,)) > width - 1:
        name = name[1:]
    return f"…{name}"


def _marked(column: _Column, runs: Sequence[records.RunDetail], comparable: bool) -> list[str]:
    """The column's texts, each with a place for the mark behind it; losses of different kinds have no best."""
    _, figure, written, better, of_losses = column
    values = [figure(run) for run in runs]
    texts = ["-" if value is None else written(value) for value in values]
    known = [value for value in values if value is not None]
    if better is None or len(set(known)) < 2 or (of_losses and not comparable):
        return texts
    best = better(known)
    return [text + (_BEST if value == best else " ") for text, value in zip(texts, values, strict=True)]


def _differing(rows: Sequence[records.SettingRow], width: int) -> Iterator[Text]:
    """A column a run; where these have no room, each value once, behind the letters of the runs that have it."""
    texts = [list(map(value_text, row.values)) for row in rows]
    keys = widest(tuple(row.key for row in rows))
    widths = [min(_LONGEST_VALUE, widest(column)) for column in zip(*texts, strict=True)]
    if keys + sum(2 + column for column in widths) <= width:
        heads = ((letter(run), column, f"bold {color(run)}") for run, column in enumerate(widths))
        yield aligned((("", keys, ""), *heads), left=1 + len(widths))
        for row, values in zip(rows, texts, strict=True):
            cells = ((value, column, "") for value, column in zip(values, widths, strict=True))
            yield aligned(((row.key, keys, "dim"), *cells), left=1 + len(widths))
        return
    for row, values in zip(rows, texts, strict=True):
        lines = [Text(fit(row.key, keys), "dim")]
        for value in dict.fromkeys(values):
            holders = [run for run, own in enumerate(values) if own == value]
            part = Text("  ").append_text(letters(holders))
            part.append(f" {fit(value, min(widest((value,)), max(8, width - keys - len(holders) - 3)))}")
            if lines[-1].cell_len + part.cell_len > width:
                lines.append(Text(" " * keys))
            lines[-1].append(part)
        yield from lines


def _spreads(spreads: Sequence[records.SeedSpread]) -> Iterator[Text]:
    """A line for each group: its runs, their mean and standard deviation, the best and the worst."""
    most = max(len(spread.runs) for spread in spreads)
    yield Text(f"{'':{most}}  {'mean ± s.d.':<15}  {'best … worst':<15}", "dim")
    for spread in spreads:
        text = letters(spread.runs).append(" " * (most - len(spread.runs)))
        text.append(f"  {decimals(spread.mean)} ± {decimals(spread.deviation)}", "bold")
        text.append(f"  {decimals(spread.lowest)} … {decimals(spread.highest)}")
        values = ", ".join(f"{key} = {value_text(value)}" for key, value in spread.settings.items())
        yield text.append(f"  {values}" if values else "", "dim")
    yield Text("s.d.: standard deviation of the runs (n − 1)", "dim")


def _differences(comparison: records.RunComparison) -> Iterator[Text]:
    """A line for each two groups: how much the second one's loss is above the first one's."""
    for difference in comparison.differences:
        first = comparison.spreads[difference.first]
        second = comparison.spreads[difference.second]
        text = letters(second.runs).append(" − ").append_text(letters(first.runs))
        text.append(f"  {difference.mean:+.4f}", "bold")
        text.append(f"  95 % interval {difference.low:+.4f} … {difference.high:+.4f}")
        text.append(f"  {plural(len(difference.seeds), 'seed')}")
        yield text
    yield Text(
        "Each difference is taken between two runs with the same seed; the interval is Student's t.",
        "dim",
    )


def comparison_table(comparison: records.RunComparison) -> CsvTable:
    """A row for each run: what it reached, its group of seeds, and the settings that differ."""
    group_of = {}
    for number, spread in enumerate(comparison.spreads):
        for place in spread.runs:
            group_of[place] = number
    names = ("run", "best_loss", "best_step", "bits_per_byte", "accuracy", "parameters", "tokens")
    header = (*names, "seconds", "group", *(row.key for row in comparison.settings))
    rows = []
    for place, run in enumerate(comparison.runs):
        summary = run.summary
        row = [
            summary.name,
            summary.best_loss,
            summary.best_step,
            run.bits_per_byte,
            None if run.history.best is None else run.history.best.accuracy,
            summary.parameters,
            summary.tokens,
            summary.seconds,
            group_of.get(place),
        ]
        for setting in comparison.settings:
            value = setting.values[place]
            row.append(None if value is None else value_text(value))
        rows.append(row)
    return CsvTable(header, rows)


def history_csv(history: records.History) -> str:
    """CSV with a heading. What an event does not tell is empty."""
    points: list[records.StepPoint | records.EvaluationPoint] = [*history.training, *history.validation, *history.whole]
    points.sort(key=lambda point: point.step)
    names = ("step", "tokens", "seconds", "loss", "learning_rate", "grad_norm", "spike", "accuracy", "of", "part")
    table = CsvTable.of(points, *names, "objective")
    events = ("step" if isinstance(one, records.StepPoint) else "evaluated" for one in points)
    rows = ([event, *row] for event, row in zip(events, table.rows, strict=True))
    return to_csv(CsvTable(("event", *table.columns), rows))
