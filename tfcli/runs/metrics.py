"""``metrics.jsonl``: the one file that is appended to."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfcli.files import write_text
from tfcli.records.training import Evaluated, StepsDone

_NAMES = {StepsDone: "step", Evaluated: "evaluated"}


def append_metrics(path: Path, event: StepsDone | Evaluated) -> None:
    """Add one line: the event's fields after its name; what is not finite becomes null, for JSON has no NaN."""
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(event).items()}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": _NAMES[type(event)], **finite}, allow_nan=False) + "\n")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every whole line, oldest first, up to one that was cut short by a kill or is no line of metrics."""
    if not path.is_file():
        return []
    lines: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            break
        if not isinstance(values, dict) or not isinstance(values.get("step"), int):
            break
        lines.append(values)
    return lines


def truncate_metrics(path: Path, step: int) -> None:
    """Forget what came after the checkpoint that training goes on from."""
    kept = [line for line in read_metrics(path) if line["step"] <= step]
    write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
