"""Ctrl-C, SIGTERM and a closed pipe during training: finish the step, save, and say how to go on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED, UNREAD = 130, 143, 1


class Terminated(KeyboardInterrupt):
    """SIGTERM where nothing has to be saved first: it stops the work as Ctrl-C does."""


class StopRequest:
    """Set, while it is armed, by the first signal or a closed pipe. An unarmed or second signal stops at once."""

    def __init__(self) -> None:
        self.armed = False
        self.exit_code: int | None = None

    def asked(self) -> bool:
        """Whether to stop after this step."""
        return self.exit_code is not None

    def reader_gone(self) -> None:
        """Nobody reads what the training says."""
        if not self.asked():
            self.exit_code = UNREAD

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if not self.armed or self.asked():
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated
        self.exit_code = INTERRUPTED if number == signal.SIGINT else TERMINATED


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn SIGINT and SIGTERM into a request for as long as the block lasts."""
    request = StopRequest()
    before = {number: signal.signal(number, request.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
