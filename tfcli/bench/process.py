"""Benchmark process: one side, seen from the benchmark."""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import IO

from tfcli.bench.protocol import Answer
from tfcli.errors import TfcliError, UsageError
from tfcli.processes import PIPE, child

_QUIET_WHEN_IDLE = {"KMP_BLOCKTIME": "10"}
"""Milliseconds that idle threads of Intel's OpenMP spin, before they leave the cores to the other side; its own
default, 200, is longer than a short step. GNU's, which comes with PyTorch for Linux, gives up within a few."""


class SideProcess:
    """Starts `tfcli.bench.worker` and talks to it. As a context manager, it ends the process whatever happens.

    Args:
        name: how it is called in errors.
        request: its "open".
        environment: variables of this side alone.

    Attributes:
        about: what the side says of itself.
        answers: those to every step, so far.
    """

    def __init__(self, name: str, request: Answer, environment: Mapping[str, str] | None = None) -> None:
        self.name, self.answers = name, list[Answer]()
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._stack = ExitStack()
        quiet = {name: os.environ.get(name, value) for name, value in _QUIET_WHEN_IDLE.items()}
        self._process = self._stack.enter_context(
            child(
                "tfcli.bench.worker",
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._complaints,
                environment={**quiet, **(environment or {})},
            )
        )
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

    def close(self) -> None:
        """End it now, if it has not ended."""
        self._stack.close()
        self._complaints.close()

    def __enter__(self) -> "SideProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, where: TracebackType | None) -> None:
        self.close()

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
        lines = self._complaints.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said and code > 0 else f"exit code {code}"
