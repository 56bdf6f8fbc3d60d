"""Learning curves: ``metrics.jsonl`` as the points of a training."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from tfcli.records.runs import EvaluationPoint, History, StepPoint
from tfcli.records.training import Scored, SettingChanged
from tfcli.runs.metrics import metric_lines, parse_line, read_metrics

Line = Mapping[str, Any]


def read_history(path: Path) -> History:
    """Everything that was recorded. What an older run did not record is None.

    Raises:
        BrokenInputError: a line is damaged.
    """
    lines = read_metrics(path)
    training = tuple(_step(line) for line in lines if line.get("event") == "step")
    validation, whole = _evaluations([line for line in lines if line.get("event") == "evaluated"], training)
    shares = [share for line in lines if (share := _number(line, "padding")) is not None]
    changes = (
        SettingChanged(
            line["step"],
            str(line.get("key")),
            line.get("from"),
            line.get("to"),
            _number(line, "rate_before"),
            _number(line, "rate_after"),
        )
        for line in lines
        if line.get("event") == "changed"
    )
    return History(training, validation, tuple(changes), sum(shares) / len(shares) if shares else None, whole)


def read_landmarks(path: Path) -> History:
    """The last report and every evaluation: what a list needs, from files of any length.

    Raises:
        BrokenInputError: a line that was looked at is damaged.
    """
    written = metric_lines(path)
    evaluated = [parse_line(path, *line) for line in written if b'"evaluated"' in line[1]]
    last = next((line for raw in reversed(written) if (line := parse_line(path, *raw)).get("event") == "step"), None)
    training = (_step(last),) if last else ()
    validation, whole = _evaluations(evaluated, training)
    return History(training, validation, whole=whole)


def _step(line: Line) -> StepPoint:
    return StepPoint(
        step=line["step"],
        tokens=int(_number(line, "tokens") or 0),
        seconds=_number(line, "seconds") or 0.0,
        loss=_number(line, "loss"),
        objective=_number(line, "objective"),
        learning_rate=_number(line, "learning_rate"),
        grad_norm=_number(line, "grad_norm"),
        spike=line.get("spike") is True,
        weight_norms=_numbers(line, "weight_norms"),
        update_ratios=_numbers(line, "update_ratios"),
    )


def _evaluations(
    lines: Sequence[Line], training: Sequence[StepPoint]
) -> tuple[tuple[EvaluationPoint, ...], tuple[EvaluationPoint, ...]]:
    """Each with the tokens and seconds of the last report before it: an evaluation counts its own alone.

    Where a sample was scored in between, those of the whole part are kept apart, if nothing came behind them."""
    samples = any(line.get("part") == "sample" for line in lines)
    points, whole, number = [], list[EvaluationPoint](), 0
    for line in lines:
        while number < len(training) and training[number].step <= line["step"]:
            number += 1
        before = training[number - 1] if number else None
        point = EvaluationPoint(
            step=int(_number(line, "of_step") or line["step"]),
            tokens=before.tokens if before else 0,
            seconds=before.seconds if before else 0.0,
            loss=_number(line, "loss"),
            accuracy=_number(line, "accuracy"),
            scored_tokens=int(_number(line, "tokens") or 0),
            of=line["of"] if line.get("of") in get_args(Scored) else "weights",
            part="sample" if line.get("part") == "sample" else "whole",
        )
        if samples and point.part == "whole":
            whole.append(point)
        else:
            whole.clear()
            points.append(point)
    return tuple(points), tuple(whole)


def _numbers(line: Line, name: str) -> dict[str, float | None]:
    values = line.get(name)
    return {key: _number(values, key) for key in values} if isinstance(values, dict) else {}


def _number(line: Line, name: str) -> float | None:
    value = line.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if known else None
