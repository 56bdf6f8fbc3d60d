"""Training log, ``metrics.jsonl``: the one file of a run that is appended to; its evaluations and its curves."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import flush, write_text
from tfcli.recipe.loading import load_recorded
from tfcli.records import runs
from tfcli.records.arrays import frozen
from tfcli.records.evaluation import loss_unit
from tfcli.runs.directory import RunDirectory

_MOST_STEPS = 1 << 53


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"Cannot write {path}: {error.strerror or error}"
        raise TfcliError(problem, "free the disk or choose another folder") from error


def append_metrics(path: Path, event: runs.StepsDone | runs.Evaluated | runs.SettingChanged) -> None:
    """Add one line: the event's fields after its name; what is not finite becomes null, for JSON has no NaN. A
    `TfcliError` where it cannot be written: a line that was cut short is passed over by `read_metrics`."""
    fields = {name.rstrip("_"): value for name, value in asdict(event).items()}  # Python has a word "from" of its own
    if isinstance(event, runs.SettingChanged) and event.rate_after is None:
        del fields["rate_before"], fields["rate_after"]
    if isinstance(event, runs.Evaluated):
        fields = {k: v for k, v in fields.items() if v is not None or k not in ("f1", "watched")}
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in fields.items()}
    line = json.dumps({"event": event.event, **finite}, allow_nan=False) + "\n"
    with _writing(path), path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(line)


def flush_metrics(path: Path) -> None:
    """Bring every line to the disk, so that no checkpoint outlives it; a `TfcliError` where that is full."""
    with _writing(path):
        flush(path)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every line, oldest first, but a last one that was cut short; a `BrokenInputError` names a damaged one."""
    return [_parse_line(path, number, raw) for number, raw in _metric_lines(path)]


def _metric_lines(path: Path) -> list[tuple[int, bytes]]:
    """Every line with its number, from 1, but a last one that a kill has cut short."""
    if not path.is_file():
        return []
    try:
        written = path.read_bytes()
    except OSError as error:
        raise BrokenInputError(f"Cannot read {path}: {error.strerror}", "check its permissions") from error
    lines = written.split(b"\n")  # at line ends alone: JSON may hold other separators
    if not lines[-1] or _parsed(lines[-1]) is None:
        lines.pop()
    return list(enumerate(lines, start=1))


def _parse_line(path: Path, number: int, raw: bytes) -> dict[str, Any]:
    if (line := _parsed(raw)) is not None:
        return line
    raise BrokenInputError(f"{path} is damaged in line {number}", "remove that line, or restore the file")


def _parsed(raw: bytes) -> dict[str, Any] | None:
    """A line of metrics: its step is a count, and all else are texts, numbers that a float holds, or such by name."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or type(line.get("step")) is not int or not 0 <= line["step"] <= _MOST_STEPS:
        return None
    values = (inner for value in line.values() for inner in (value.values() if isinstance(value, dict) else (value,)))
    most = sys.float_info.max
    plain = (v is None or isinstance(v, str) or (isinstance(v, int | float) and -most <= v <= most) for v in values)
    return line if all(plain) else None


def truncate_metrics(path: Path, step: int, *, unevaluated: bool = False) -> tuple[int, list[dict[str, Any]]]:
    """Forget what came after a step, and its evaluation if `unevaluated`: how many lines stay, and which do not."""
    kept, forgotten = list[dict[str, Any]](), list[dict[str, Any]]()
    for line in read_metrics(path):
        undone = unevaluated and line["step"] == step and line.get("event") == "evaluated"
        (forgotten if undone or line["step"] > step else kept).append(line)
    write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
    return len(kept), forgotten


Line = Mapping[str, Any]
_Points = tuple[runs.EvaluationPoint, ...]


def read_history(path: Path) -> runs.History:
    """Everything that was recorded. What an older run did not record is None. Raises what `read_metrics` raises."""
    lines = read_metrics(path)
    training = tuple(_step(line) for line in lines if line.get("event") == "step")
    validation, whole = _evaluations([line for line in lines if line.get("event") == "evaluated"], training)
    changes = tuple(_change(line) for line in lines if line.get("event") == "changed")
    shares = [share for line in lines if (share := _number(line, "padding")) is not None]
    return runs.History(training, validation, changes, sum(shares) / len(shares) if shares else None, whole)


def read_evaluations(path: Path) -> runs.History:
    """The last report and every evaluation, for a list of runs: other lines are not parsed."""
    written = _metric_lines(path)
    evaluated = [_parse_line(path, *line) for line in written if b'"evaluated"' in line[1]]
    last = next((line for raw in reversed(written) if (line := _parse_line(path, *raw)).get("event") == "step"), None)
    training = (_step(last),) if last else ()
    validation, whole = _evaluations(evaluated, training)
    return runs.History(training, validation, whole=whole)


def _change(line: Line) -> runs.SettingChanged:
    rates = _number(line, "rate_before"), _number(line, "rate_after")
    return runs.SettingChanged(line["step"], str(line.get("key")), line.get("from"), line.get("to"), *rates)


def _step(line: Line) -> runs.StepPoint:
    return runs.StepPoint(
        line["step"],
        int(_number(line, "tokens") or 0),
        _number(line, "seconds") or 0.0,
        **{name: _number(line, name) for name in ("loss", "objective", "learning_rate", "grad_norm")},
        spike=line.get("spike") is True,
        weight_norms=_numbers(line, "weight_norms"),
        update_ratios=_numbers(line, "update_ratios"),
    )


def _evaluations(lines: Sequence[Line], training: Sequence[runs.StepPoint]) -> tuple[_Points, _Points]:
    """Each with the tokens and seconds of the report before it; beside samples, those of the whole at the end apart."""
    samples = any(line.get("part") == "sample" for line in lines)
    points, whole, number = [], list[runs.EvaluationPoint](), 0
    for line in lines:
        while number < len(training) and training[number].step <= line["step"]:
            number += 1
        before = training[number - 1] if number else None
        point = runs.EvaluationPoint(
            step=int(_number(line, "of_step") or line["step"]),
            tokens=before.tokens if before else 0,
            seconds=before.seconds if before else 0.0,
            loss=_number(line, "loss"),
            accuracy=_number(line, "accuracy"),
            scored_tokens=int(_number(line, "tokens") or 0),
            of=line["of"] if line.get("of") in get_args(runs.Scored) else "weights",
            part="sample" if line.get("part") == "sample" else "whole",
            watched=_numbers(line, "watched"),
        )
        if samples and point.part == "whole":
            whole.append(point)
        else:
            whole.clear()
            points.append(point)
    return tuple(points), tuple(whole)


def _numbers(line: Line, name: str) -> dict[str, float | None]:
    return {key: _number(values, key) for key in values} if isinstance(values := line.get(name), dict) else {}


def _number(line: Line, name: str) -> float | None:
    value = line.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def training_curves(run: RunDirectory) -> runs.TrainingCurves:
    """The figures that training recorded; a `UsageError` where there are none."""
    history = read_history(run.metrics)
    points = history.training
    if not points and run.metrics.is_file():
        why = "it was interrupted before the first, or the file is damaged"
        raise UsageError(f"{run.metrics} holds no report of training: {why}", "restore the file, or name another run")
    if not points:
        raise UsageError(f"The run {run.path} has recorded no training", "name a run that tfcli has trained here")

    def curve(values: Iterable[object]) -> NDArray[np.float64]:
        return frozen(list(values), np.float64)  # None as NaN

    groups = tuple(dict.fromkeys(name for point in points for name in point.weight_norms))
    ratios = curve([point.update_ratios.get(name) for point in points] for name in groups)
    return runs.TrainingCurves(
        run=str(run.path),
        groups=groups,
        steps=frozen([point.step for point in points], np.int64),
        losses=curve(point.loss for point in points),
        learning_rates=curve(point.learning_rate for point in points),
        grad_norms=curve(point.grad_norm for point in points),
        weight_norms=curve([point.weight_norms.get(name) for point in points] for name in groups),
        update_ratios=ratios,
        typical_ratios=curve(map(_typical, ratios)),
        objectives=curve(point.objective for point in points),
        evaluated_steps=frozen([point.step for point in history.validation], np.int64),
        evaluated_losses=curve(point.loss for point in history.validation),
        watched=tuple(point.watched for point in history.validation),
        loss_unit=loss_unit(load_recorded(run.recipe).objective),
    )


def _typical(ratios: NDArray[np.float64]) -> float:
    """The median of those above 0; a step that was left out has moved nothing."""
    moved = ratios[ratios > 0]
    return float(np.median(moved)) if len(moved) else float("nan")
