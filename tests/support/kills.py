"""Trains one tiny run after the other and kills the process at random instants: `python -m tests.support.kills FOLDER
KILLS SEED [RUN]`, where adapters are trained beside the weights of RUN. Prints how many kills there were, how many in
the middle of a write, and how many runs came to their end.

A process of its own, which has imported everything and trains nothing: what it kills are its forks.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.disks import half_written
from tests.support.runs import Settings, one_thread, tiny_recipe
from tfcli.pipeline.training import train_recipe
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import TrainingStarted

BUSY: Settings = {
    "model": {"dropout": 0.2},
    "train": {
        "steps": 40,
        "grad_accumulation": 2,
        "log_every": 1,
        "evaluate_every": 7,
        "save_every": 1,
        "ema_decay": 0.9,
        "keep_checkpoints": 3,
        "average_checkpoints": 3,
    },
}
LONGEST = 0.15
"""Seconds that a process trains at most: some steps."""


def recipe(init: str | None = None) -> Recipe:
    """What is trained and killed; beside `init`, an adapter."""
    adapter = {"train": {"init": init, "adapter": "lora", "adapter_rank": 4}} if init else {}
    return tiny_recipe("decoder", BUSY, adapter)


def finishes(out: Path, report: Callable[[Any], object] = lambda event: None, init: str | None = None) -> None:
    """Begin the run or go on with it, to its end."""
    with one_thread():
        train_recipe(recipe(init), out, report, lambda: False)


def _killed(out: Path, seconds: float, *, init: str | None, training: bool = False) -> bool:
    """Train in a fork, and kill it after so many seconds, or when it has trained for as long; whether it was killed
    before its end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        finishes(out, lambda event: isinstance(event, TrainingStarted) and os.write(write, b"!"), init)
        os._exit(0)
    os.close(write)
    if training:
        os.read(read, 1)
    os.close(read)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, "a training failed"
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def _main(folder: Path, wanted: int, seed: int, init: str | None = None) -> None:
    draw = random.Random(seed)
    kills, inside, runs = 0, 0, 0
    while kills < wanted:
        out = folder / f"run-{runs}"
        while kills < wanted and _killed(out, draw.uniform(0, LONGEST), init=init, training=draw.random() < 0.9):
            kills += 1
            inside += bool(half_written(out))
        assert not _killed(out, 600, init=init), "it never ends"
        runs += 1
    print(json.dumps({"kills": kills, "inside": inside, "runs": runs}))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
