"""Training log, ``metrics.jsonl``: the one file of a run that is appended to."""

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfcli.errors import BrokenInputError, TfcliError
from tfcli.files import flush, write_text
from tfcli.records.training import Evaluated, SettingChanged, StepsDone

_MOST_STEPS = 1 << 53
_NAMES = {StepsDone: "step", Evaluated: "evaluated", SettingChanged: "changed"}


def append_metrics(path: Path, event: StepsDone | Evaluated | SettingChanged) -> None:
    """Add one line: the event's fields after its name; what is not finite becomes null, for JSON has no NaN.

    Raises:
        TfcliError: it cannot be written; a line that was cut short is passed over by `read_metrics`.
    """
    fields = {name.rstrip("_"): value for name, value in asdict(event).items()}  # Python has a word "from" of its own
    if isinstance(event, SettingChanged) and event.rate_after is None:
        del fields["rate_before"], fields["rate_after"]
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in fields.items()}
    line = json.dumps({"event": _NAMES[type(event)], **finite}, allow_nan=False) + "\n"
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line)
    except OSError as error:
        raise _unwritable(path, error) from error


def flush_metrics(path: Path) -> None:
    """Bring every line to the disk, so that no checkpoint outlives the lines before it.

    Raises:
        TfcliError: the disk is full or broken.
    """
    try:
        flush(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every line, oldest first, but a last one that a kill has cut short.

    Raises:
        BrokenInputError: another line is none of metrics; names it.
    """
    return [parse_line(path, number, raw) for number, raw in metric_lines(path)]


def metric_lines(path: Path) -> list[tuple[int, bytes]]:
    """Every line with its number, from 1, but a last one that a kill has cut short.

    Raises:
        BrokenInputError: the file cannot be read.
    """
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


def parse_line(path: Path, number: int, raw: bytes) -> dict[str, Any]:
    """A line of metrics: its step is a count, and all else are numbers, texts, or numbers by name.

    Raises:
        BrokenInputError: it is something else.
    """
    line = _parsed(raw)
    if line is None:
        raise BrokenInputError(f"{path} is damaged in line {number}", "remove that line, or restore the file")
    return line


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or type(line.get("step")) is not int or not 0 <= line["step"] <= _MOST_STEPS:
        return None
    values = (inner for value in line.values() for inner in (value.values() if isinstance(value, dict) else (value,)))
    return line if all(_is_plain(value) for value in values) else None


def _is_plain(value: Any) -> bool:
    """Whether it can be counted with: a number that a float can hold is, and so is what is no number."""
    if isinstance(value, int | float):
        return -sys.float_info.max <= value <= sys.float_info.max
    return value is None or isinstance(value, str)


def truncate_metrics(path: Path, step: int, *, unevaluated: bool = False) -> tuple[int, list[dict[str, Any]]]:
    """Forget what came after the checkpoint that training goes on from: how many lines stay, and those that do not.

    Args:
        unevaluated: the step's evaluation came after the checkpoint.
    """
    kept, forgotten = list[dict[str, Any]](), list[dict[str, Any]]()
    for line in read_metrics(path):
        undone = unevaluated and line["step"] == step and line.get("event") == "evaluated"
        (forgotten if undone or line["step"] > step else kept).append(line)
    write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
    return len(kept), forgotten


def _unwritable(path: Path, error: OSError) -> TfcliError:
    return TfcliError(f"Cannot write {path}: {error.strerror or error}", "free the disk or choose another folder")
