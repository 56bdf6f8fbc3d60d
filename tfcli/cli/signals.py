"""Ctrl-C, SIGTERM, a closed terminal and a closed pipe during training: finish the step, save, and say how to go on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED, HUNG_UP, UNREAD = 130, 143, 129, 1
_EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}


class Stopped(KeyboardInterrupt):
    """A signal where nothing has to be saved first: it stops the work as Ctrl-C does."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


def exit_code_of(stopped: KeyboardInterrupt) -> int:
    """That of the signal; Python's own KeyboardInterrupt is Ctrl-C."""
    return stopped.exit_code if isinstance(stopped, Stopped) else INTERRUPTED


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
        if self.asked() and number == signal.SIGHUP:
            return  # a terminal that closes says so twice: by the shell, and by the system
        exit_code = _EXIT_CODES[signal.Signals(number)]
        if not self.armed or self.asked():
            raise Stopped(exit_code)
        self.exit_code = exit_code


@contextmanager
def stop_on_signals(request: StopRequest | None = None) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP into a request for as long as the block lasts; under nohup, which has SIGHUP
    ignored, it stays ignored."""
    request = request or StopRequest()
    answered = [n for n in _EXIT_CODES if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, request.receive) for number in answered}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
