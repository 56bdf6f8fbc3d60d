"""Benchmark measurement: sides in turns, percentiles and ratios of their times.

    {"open": "tfcli", "recipe": {…}}       → {"model": "decoder", "parameters": 842368, …}
    {"do": "step"}                         → {"seconds": 0.217, "loss": 4.17}
    {"do": "stop"}                         → {"memory": 531628032}, and the side's process ends

Whatever fails is answered by {"problem": …, "remedy": …, "exit_code": 1}.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import IO, Any, NamedTuple

import numpy as np

from tfcli.bench import Spread
from tfcli.errors import TfcliError, UsageError
from tfcli.machine import PIPE, child

Answer = dict[str, Any]  # one line, as JSON has it
Tell = Callable[[str], None]  # hears what is going on


class Side:
    """What a side's process builds at "open"."""

    device: Any = None  # whose memory is measured; None: the machine's, of a side without PyTorch

    def about(self) -> Answer:
        """What it is, or nothing that is not known."""
        return {}

    def step(self) -> Answer:
        """Do what is measured, once, and wait for it."""
        raise NotImplementedError


class SideProcess(ExitStack):
    """Starts `tfcli.bench.worker` with its "open", the `request`, and talks to it until it is closed. `about` is what
    the side says of itself, `answers` are those to all steps."""

    def __init__(self, name: str, request: Answer, environment: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.name, self.answers = name, list[Answer]()
        self._complaints: IO[bytes] = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed with the process)
        # Milliseconds that idle threads of Intel's OpenMP spin: its own default, 200, is longer than a short step.
        variables = {"KMP_BLOCKTIME": os.environ.get("KMP_BLOCKTIME", "10"), **(environment or {})}
        worker = child("tfcli.bench.worker", stdin=PIPE, stdout=PIPE, stderr=self._complaints, environment=variables)
        self._process = self.enter_context(worker)
        try:
            self.about = self._ask(request)
        except BaseException:
            self.close()
            raise

    def step(self) -> Answer:
        """Have it do its work once."""
        self.answers.append(self._ask({"do": "step"}))
        return self.answers[-1]

    def stop(self) -> Answer:
        """Hear what it held, and wait until it has ended."""
        answer = self._ask({"do": "stop"})
        self._process.wait()
        return answer

    def _ask(self, request: Answer) -> Answer:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise TfcliError(f"The process of {self.name} ended ({self._last_words()})", "try a smaller --size")
        answer: Answer = json.loads(line)
        if "problem" in answer:
            kind = UsageError if answer["exit_code"] == UsageError.exit_code else TfcliError
            raise kind(f"{answer['problem']}, in the process of {self.name}", answer["remedy"])
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        self._complaints.seek(0)
        said = [*filter(None, map(str.strip, self._complaints.read().decode(errors="replace").split("\n")))]
        return said[-1] if said and code > 0 else f"exit code {code}"


class Taken(NamedTuple):
    """A side's seconds of every round; `beside`: the most bytes that its process held, and its `ratios`."""

    side: SideProcess
    seconds: list[float]
    beside: Answer


_PAUSE = 0.02  # seconds between two sides' steps, in which the idle threads of the first fall asleep


def measure(sides: Sequence[SideProcess], rounds: int, *, warmup: int, tell: Tell, unit: str = "round") -> list[Taken]:
    """What every side took in the rounds after the warm-up; in a round each does one step while the others idle, so
    that a machine that is slowed for a while slows all alike."""
    for number in range(1, warmup + rounds + 1):
        for side in sides:
            time.sleep(_PAUSE)
            side.step()
        tell(f"{unit} {number} of {warmup + rounds}")
    times = [[answer["seconds"] for answer in side.answers[warmup:]] for side in sides]
    pairs = zip(sides, times, strict=True)
    return [Taken(side, taken, {**side.stop(), **ratios(times[0], taken)}) for side, taken in pairs]


def spread(values: Sequence[float]) -> Spread:
    """Percentiles, between two values along the line that joins them.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(p10=1.4, p50=3.0, p90=4.6)
    """
    return Spread(*np.percentile(values, [10, 50, 90]).tolist())


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """How many times as long as ours theirs took; nothing where both are the same side."""
    if theirs is ours:
        return {}
    rounds = spread([there / here for here, there in zip(ours, theirs, strict=True)])
    return {"ratio": median(theirs) / median(ours), "ratio_p10": rounds.p10, "ratio_p90": rounds.p90}
