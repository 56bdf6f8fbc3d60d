"""The same training, twice, writes the same files byte by byte, but for those that hold times."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from tests.support.runs import tiny_recipe, train_tiny
train_tiny(tiny_recipe("decoder", {"train": {"ema_decay": 0.9}}), Path(sys.argv[1]))
"""

# Files with seconds: the lines of the metrics, and the counters of a checkpoint with their digest.
TIMES = {"metrics.jsonl", "state.json"}


def test_two_processes_write_the_same_bytes(tmp_path: Path):
    """The names of a checkpoint's metadata came in an order that each process drew for itself."""
    runs = [tmp_path / name for name in ("first", "second", "third")]
    for run in runs:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        subprocess.run([sys.executable, "-c", PROGRAM, run], env=environment, check=True)
    files = [{file.relative_to(run): file for file in run.rglob("*") if file.is_file()} for run in runs]
    assert files[0].keys() == files[1].keys() == files[2].keys()
    assert {name.name for name in files[0]} >= {"model.safetensors", "optimizer.safetensors", "state.json"}
    for name in files[0]:
        if name.name not in TIMES:
            assert len({of_run[name].read_bytes() for of_run in files}) == 1, name
