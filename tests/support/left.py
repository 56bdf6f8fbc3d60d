"""What a run has left on the disk, to be compared to the bit with what another one has."""

import json
from pathlib import Path
from typing import Any

from tests.support.runs import same, weights
from tfcli.runs.directory import RunDirectory
from tfcli.runs.metrics import read_metrics

TIMES = ("seconds", "seconds_left", "tokens_per_second")


class Left(dict[str, Any]):
    """Best weights, metrics and every checkpoint. Its numbers are too many to be shown when a test fails."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


def what_is_left(run: Path) -> Left:
    """Every number of a run but the times."""
    lines = [{k: v for k, v in line.items() if k not in TIMES} for line in read_metrics(run / "metrics.jsonl")]
    left = Left(metrics=lines, best=weights(run / "model.safetensors"))
    for step, folder in RunDirectory(run).checkpoints().items():
        state = json.loads((folder / "state.json").read_text())
        left[f"state {step}"] = {k: v for k, v in state.items() if k not in (*TIMES, "digest")}  # it is of times, too
        left[f"weights {step}"] = weights(folder / "model.safetensors")
        if (moments := folder / "optimizer.safetensors").is_file():
            left[f"moments {step}"] = weights(moments)
    return left


def require_equal(ours: Left, theirs: Left) -> None:
    """Fail unless all is equal: names, numbers, and the last bit of every tensor."""
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        tensors = name.split()[0] in ("best", "weights", "moments")
        equal = same(ours[name], value) if tensors else ours[name] == value
        assert equal, name
