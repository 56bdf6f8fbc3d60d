"""A training as it runs: progress, figures and the loss curve, redrawn after every event."""

import math
from itertools import chain
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import counted, decimals, duration, exact, percent, plural, short, speed
from tfcli.draw.safe import printable
from tfcli.draw.tables import columns
from tfcli.records import runs
from tfcli.runs.curves_view import CURVES

_CURVE_LINES = 8
_OTHER_LINES = 3  # the bar, a message, room for the cursor
_AXIS_LINES = 3
_FIRST = ("loss", "speed", "time left", "step", "validation", "best")  # where there is no room for all
_LEAST_CURVE = 4
_SPIKE = CURVES["spike"][1]


class TrainingView:
    """Fed with the loop's events; draws what they say so far. On low terminals the curve shrinks or goes."""

    def __init__(self) -> None:
        self._seen: dict[type, Any] = {}  # the last event of each kind
        self._best: runs.Evaluated | None = None
        self._losses: dict[str, list[tuple[int, float]]] = {name: [] for name in CURVES}
        self._notes: list[str] = []

    def update(self, event: runs.TrainingEvent) -> None:
        """Take in the loop's next event."""
        self._seen[type(event)] = event
        match event:
            case runs.TrainingStarted():
                self._notes += _begun_with(event)
            case runs.SettingChanged():
                self._notes.append(_change(event))
            case runs.StepsDone():
                for name in ["training loss"] + ["spike"] * event.spike:
                    self._losses[name].append((event.step, event.loss))
            case runs.Evaluated():
                self._best = event if event.best else self._best
                started = self._seen.get(runs.TrainingStarted)
                ended = event.part == "whole" and started and started.evaluate_tokens
                name = "whole part" if ended else "validation loss"
                self._losses[name].append((event.of_step or event.step, event.loss))
                self._losses["whole part"].sort()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if (started := self._seen.get(runs.TrainingStarted)) is None:
            yield Text("Preparing to train …", style="dim")
            return
        machine = f"{started.device}, {started.precision}, {plural(started.threads, 'thread')}"
        about = f" · {counted(started.parameters, started.adapter_parameters)} · {machine} · {printable(started.run)}"
        title = Text.assemble((started.architecture, "bold"), (about, "dim"))
        above = [title, *(Text(note, style="yellow") for note in self._notes)]
        yield from above
        yield self._progress(started)
        taken = sum(len(text.wrap(console, options.max_width)) for text in above) + _OTHER_LINES
        left = (options.height or console.height) - taken
        figures = self._figures(started, options.max_width, left)
        yield figures
        height = min(_CURVE_LINES, left - figures.row_count - _AXIS_LINES)
        if len(self._losses["training loss"]) > 1 and height >= _LEAST_CURVE:
            yield self._curve(started, height)
        if finished := self._seen.get(runs.TrainingFinished):
            yield Text(_finished_sentence(finished), style="bold")

    def _progress(self, started: runs.TrainingStarted) -> Table:
        """By tokens."""
        share = started.step / max(1, started.total_steps)
        if (finished := self._seen.get(runs.TrainingFinished)) and finished.reason == "done":
            share = 1.0
        elif last := self._seen.get(runs.StepsDone):
            share = min(1.0, last.tokens / max(1, started.total_steps * started.tokens_per_step))
        bar = ProgressBar(total=1.0, completed=share, complete_style="cyan", finished_style="green")
        grid = Table.grid(Column(ratio=1), Column(justify="right", width=7), padding=(0, 1), expand=True)
        grid.add_row(bar, Text(percent(share), style="bold"))
        return grid

    def _figures(self, started: runs.TrainingStarted, width: int, lines: int) -> Table:
        """Side by side where nothing has to be cut for it, else below each other, as many as `lines` bear."""
        last, evaluated, finished = map(self._seen.get, (runs.StepsDone, runs.Evaluated, runs.TrainingFinished))
        best, total_tokens = self._best, started.total_steps * started.tokens_per_step
        left = [
            ("step", f"{exact((last or started).step)} of {exact(started.total_steps)}"),
            ("tokens", f"{short(last.tokens if last else 0)} of {short(total_tokens)}"),
            ("speed", speed(last.tokens_per_second) if last else "–"),
            ("time", duration(ended.seconds) if (ended := finished or last) else "–"),
            ("time left", duration(last.seconds_left) if last and not finished else "–"),
        ]
        right = [
            ("loss", _loss(last, started.loss_unit) if last else "–"),
            ("validation", f"{decimals(evaluated.loss)}, accuracy {percent(evaluated.accuracy)}" if evaluated else "–"),
            ("best", f"{decimals(best.loss)} at step {exact(best.of_step or best.step)}" if best else "–"),
            ("learning rate", f"{last.learning_rate:.2e}" if last else "–"),
            ("gradient norm", f"{last.grad_norm:.2f}" if last else "–"),
        ]
        if best and best.of == "checkpoints":
            right[2] = ("best", f"{decimals(best.loss)}, {_SCORED[best.of]}")
        if last and (last.padding or last.skipped):
            left.append(("padding", f"{percent(last.padding)} of places"))
            right.append(("left out", plural(last.skipped, "step")))
        names, others = (max(len(name) for name, _ in half) for half in (left, right))
        # So wide from the first step on that the figures stay where they are.
        least, most = (max(22, *(cell_len(value) for _, value in half)) for half in (left, right))
        room = width - names - others - 6
        if least + most <= room:
            widths: list[int | None] = [names, min(40, max(least, width // 3), room - most), others, None]
            rows = [[*row] for row in zip(left, right, strict=True)]
        else:
            widths = [max(names, others), None]
            ranked = sorted([*left, *right], key=lambda row: [*_FIRST, row[0]].index(row[0]))
            rows = [[row] for row in ranked[: max(1, lines)]]
        grid = columns("l" * len(widths))
        for column, cells in zip(grid.columns, widths, strict=True):
            column.width = cells
        for row in rows:
            pairs = ((Text(name, "dim"), Text(value, "bold" if name == "loss" else "")) for name, value in row)
            grid.add_row(*chain.from_iterable(pairs))
        return grid

    def _curve(self, started: runs.TrainingStarted, height: int) -> Plot:
        end = max(self._losses["training loss"][-1][0], started.total_steps)
        series = [
            Series(name, [step for step, _ in points], [loss for _, loss in points], *CURVES[name])
            for name, points in self._losses.items()
            if points
        ]
        return Plot(tuple(series), "step", height, (0.0, float(end)))


def _finished_sentence(event: runs.TrainingFinished) -> str:
    end = {"done": "Done", "early": "Stopped early, no better evaluation came", "interrupted": "Interrupted"}
    taken = f"{exact(event.step)} steps, {short(event.tokens)} tokens in {duration(event.seconds)}"
    if event.best_loss is not None and event.best_step is not None:
        taken += f"; best validation loss {decimals(event.best_loss)} at step {exact(event.best_step)}"
    return f"{end[event.reason]}: {taken}. Saved in {printable(event.run)}."


# What the loss is the mean over, by objective.
_LOSS_OF = {
    "clm": "token",
    "mlm": "masked token",
    "seq2seq": "target token",
    "completion": "token of the completion",
    "classify": "text",
    "tag": "word",
    "span": "end of an answer",
}


def loss_in_words(ending: runs.RunEnding) -> str:
    """The best validation loss next to what guessing reaches; empty if nothing was evaluated."""
    if ending.loss is None:
        return ""
    unit = _LOSS_OF.get(ending.objective, "target token")
    sentence = f"Validation loss {ending.loss:.2f} nats per {unit}"
    if ending.objective == "span":
        return f"{sentence}."
    kind = "label" if ending.objective in ("classify", "tag") else "token"
    guesses = f"guessing evenly among {plural(ending.num_choices, kind)} gives {math.log(ending.num_choices):.2f}"
    if ending.frequency_loss is not None:
        guesses += f", guessing by how frequent each {kind} is gives {ending.frequency_loss:.2f}"
    return f"{sentence}; {guesses}."


def event_line(event: runs.TrainingEvent) -> str:
    """An event as one plain line, its columns aligned from line to line, for pipes and logs."""
    match event:
        case runs.TrainingStarted():
            return _columns("resume" if event.step else "start", _start(event))
        case runs.SettingChanged():
            return _columns("change", f"{event.step:>7}", _change(event))
        case runs.StepsDone():
            return _columns(
                "step",
                f"{event.step:>7}/{event.total_steps}",
                f"loss {decimals(event.loss):>8}",
                *((f"smoothed {decimals(event.objective):>8}",) if event.objective is not None else ()),
                f"lr {event.learning_rate:.2e}",
                f"norm {event.grad_norm:7.2f}",
                f"{short(event.tokens):>7} tokens",
                f"{speed(event.tokens_per_second):>15}",
                f"{duration(event.seconds_left):>13} left",
                *((f"{percent(event.padding)} padding",) if event.padding else ()),
                *((f"{plural(event.skipped, 'step')} left out",) if event.skipped else ()),
                *((f"{_SPIKE} spike",) if event.spike else ()),
            )
        case runs.Evaluated():
            told = [f"{event.step:>7}", f"loss {decimals(event.loss):>8}", f"accuracy {percent(event.accuracy)}"]
            told += [] if event.f1 is None else [f"F1 {percent(event.f1)}"]
            told += [_SCORED[event.of]] if event.of in _SCORED else []
            told += [f"weights of step {event.of_step}"] if event.of_step is not None else []
            told += ["sample"] * (event.part == "sample")
            told += [f"{name} {value:.3f}" for name, value in (event.watched or {}).items()]
            return _columns("evaluate", *told, *["best"] * event.best)
        case runs.CheckpointSaved():
            return _columns("save", f"{event.step:>7}", printable(event.path))
        case runs.TrainingFinished():
            return _columns("finish", _finished_sentence(event))


_SCORED = {"moving_average": "moving average", "checkpoints": "mean of checkpoints"}


_USUAL_UNIT = "nats per token"


def _loss(event: runs.StepsDone, unit: str) -> str:
    """The loss, with its unit where that is not per token."""
    loss = decimals(event.loss)
    if unit != _USUAL_UNIT:
        loss += f" {unit}"
    if event.objective is not None:  # longer than any other figure; the curve says what the mark means
        loss += f", smoothed {decimals(event.objective)}"
        return f"{loss} {_SPIKE}" if event.spike else loss
    return f"{loss}  {_SPIKE} spike" if event.spike else loss


def _change(event: runs.SettingChanged) -> str:
    change = f"{event.key}: {_value(event.from_)} → {_value(event.to)}"
    if event.rate_before is None or event.rate_after is None:
        return change
    rates = f"learning rate {event.rate_before:.2e} → {event.rate_after:.2e}"
    if event.key == "train.schedule_steps" and event.to is not None and event.step >= event.to:
        rates = f"so that the learning rate stays at its last, {event.rate_after:.2e}; train.schedule stretches it"
    return f"{change}, {rates}"


def _value(value: Any) -> str:
    return "none" if value is None else printable(str(value).lower() if isinstance(value, bool) else str(value))


_MANY_TIMES = 40  # more often than the recipes read their texts: the model learns this one by heart


def _begun_with(event: runs.TrainingStarted) -> list[str]:
    """Warnings about the machine, the settings, and the checkpoint that a training goes on from."""
    warnings = []
    if event.busy_cores:
        used = f"other programs use {plural(event.busy_cores, 'core')}"
        warnings.append(f"{used}, and it computes with {plural(event.threads, 'thread')}")
    if event.lost_lines:
        lost = "a line that was" if event.lost_lines == 1 else f"{exact(event.lost_lines)} lines that were"
        warnings.append(f"metrics.jsonl has lost {lost} there when step {exact(event.step)} was saved")
    if event.without_digest:
        warnings.append("its checkpoint has no digest yet, so that not every edit of the run would be seen")
    if 1 < event.total_steps <= event.warmup_steps:
        warm_up = f"the warm-up (train.warmup_steps = {exact(event.warmup_steps)}) takes the whole training"
        remedy = f"for a shorter one: --set train.warmup_steps={event.total_steps // 10}"
        warnings.append(f"{warm_up}, so the learning rate rises until the last step; {remedy}")
    times = event.total_steps * event.tokens_per_step // max(1, event.train_tokens)
    if times >= _MANY_TIMES:
        little = f"{plural(event.train_tokens, 'token')} to learn from are little"
        warnings.append(f"{little}, and read {exact(times)} times")
    return warnings


def _columns(name: str, *told: str) -> str:
    return f"{name:<8} {'  '.join(told)}"


def _start(event: runs.TrainingStarted) -> str:
    limits = [] if event.batch_tokens is None else [f"micro-batches of up to {exact(event.batch_tokens)}"]
    limits += [] if event.evaluate_tokens is None else [f"evaluated on {exact(event.evaluate_tokens)}"]
    batches = f" ({', '.join(limits)})" if limits else ""
    machine = f"{event.device} {event.precision}, {plural(event.threads, 'thread')}"
    model = f"{event.architecture}, {counted(event.parameters, event.adapter_parameters)}"
    steps = f"{plural(event.total_steps, 'step')} of {exact(event.tokens_per_step)} tokens{batches}"
    begun = f"{model}, {machine}, {steps}, losses in {event.loss_unit}, {printable(event.run)}"
    return "; ".join([begun, *_begun_with(event)])
