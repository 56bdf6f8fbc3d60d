"""``metrics.jsonl``: the one file that is appended to."""

import json
import math
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

from tfcli.errors import TfcliError
from tfcli.files import flush, write_text
from tfcli.records.training import Evaluated, SettingChanged, StepsDone

_NAMES = {StepsDone: "step", Evaluated: "evaluated", SettingChanged: "changed"}


def append_metrics(path: Path, event: StepsDone | Evaluated | SettingChanged) -> None:
    """Add one line: the event's fields after its name; what is not finite becomes null, for JSON has no NaN.

    Raises:
        TfcliError: it cannot be written; a line that was cut short is passed over by `read_metrics`.
    """
    fields = {name.rstrip("_"): value for name, value in asdict(event).items()}  # Python has a word "from" of its own
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in fields.items()}
    line = json.dumps({"event": _NAMES[type(event)], **finite}, allow_nan=False) + "\n"
    try:
        with path.open("a", encoding="utf-8") as file:
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
    """Every whole line, oldest first, up to one that was cut short by a kill or is no line of metrics."""
    if not path.is_file():
        return []
    parsed = map(parse_line, path.read_bytes().splitlines())
    return list(takewhile(lambda line: line is not None, parsed))  # type: ignore[arg-type]


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """A line of metrics; None where it was cut short or is something else."""
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("step"), int) else None


def truncate_metrics(path: Path, step: int) -> int:
    """Forget what came after the checkpoint that training goes on from; the number of lines that stay."""
    kept = [line for line in read_metrics(path) if line["step"] <= step]
    write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
    return len(kept)


def _unwritable(path: Path, error: OSError) -> TfcliError:
    return TfcliError(f"Cannot write {path}: {error.strerror or error}", "free the disk or choose another folder")
