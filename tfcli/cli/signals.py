"""Ctrl-C, SIGTERM, a closed terminal and a closed pipe during training: finish the step, save, and say how to go on."""

import _thread
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

INTERRUPTED, TERMINATED, HUNG_UP, UNREAD = 130, 143, 129, 1
_ANSWERED = {"SIGINT": INTERRUPTED, "SIGBREAK": INTERRUPTED, "SIGTERM": TERMINATED, "SIGHUP": HUNG_UP}
_EXIT_CODES = {getattr(signal, name): code for name, code in _ANSWERED.items() if hasattr(signal, name)}
"""Of the signals that this system has: no SIGBREAK but on Windows, where there is no SIGHUP."""

_HANG_UP = getattr(signal, "SIGHUP", None)

NOTHING_LEFT = "Stopped; nothing is left half-written."

_PATIENCE = 2.0
"""Seconds for which a command that has been stopped may tidy up, deaf to further signals."""

_LOADING = 10.0
"""Seconds for which a signal waits for a library to be loaded: raised inside its C++, the exception would be lost, or
abort the process."""


class Stopped(KeyboardInterrupt):
    """A signal where nothing has to be saved first: it stops the work as Ctrl-C does."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


class _Stopping:
    """State of this process: the signal that is ending the command, and since when; or since when a signal waits for a
    library to be loaded."""

    blocks = 0
    stopped: Stopped | None = None
    since = 0.0
    waits_since: float | None = None


def exit_code_of(stopped: KeyboardInterrupt) -> int:
    """That of the signal; Python's own KeyboardInterrupt is Ctrl-C."""
    return stopped.exit_code if isinstance(stopped, Stopped) else INTERRUPTED


def stopped() -> Stopped | None:
    """The signal that is ending this command, whatever a library has made of it on the way; not one that a library has
    swallowed some time ago."""
    return _Stopping.stopped if time.monotonic() - _Stopping.since < _PATIENCE else None


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
        if self.asked() and number == _HANG_UP:
            return  # a terminal that closes says so twice: by the shell, and by the system
        exit_code = _EXIT_CODES[number]
        if not self.armed or self.asked():
            raise Stopped(exit_code)
        self.exit_code = exit_code


@contextmanager
def stop_on_signals(request: StopRequest | None = None) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP into a request for as long as the block lasts; under nohup, which has SIGHUP
    ignored, it stays ignored."""
    request = request or StopRequest()

    def answer(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if _Stopping.stopped and now - _Stopping.since < _PATIENCE:
            return None  # the command is ending already
        if _loads(frame):
            _Stopping.waits_since = _Stopping.waits_since or now
            if now - _Stopping.waits_since < _LOADING:
                return _again(number)
        try:
            request.receive(number, frame)
        except Stopped as stopped:
            _Stopping.stopped, _Stopping.since = stopped, now
            raise

    before = {number: signal.signal(number, answer) for number in _answered()}
    unraisable, sys.unraisablehook = sys.unraisablehook, _unraisable
    _Stopping.blocks += 1
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = unraisable
        _Stopping.blocks -= 1
        if not _Stopping.blocks:
            _Stopping.stopped = _Stopping.waits_since = None


def leave_on_signals(code: Any = None) -> None:
    """Answer signals where no work is under way: end the process at once.

    Args:
        code: what the command has ended with, which the process then ends with; None: it has not begun.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        for other in _EXIT_CODES:
            signal.signal(other, signal.SIG_IGN)  # one sentence, however often it is sent
        if code is None:
            with suppress(OSError):
                os.write(2, f"tfcli: {NOTHING_LEFT}\n".encode())
        os._exit(code if isinstance(code, int) else _EXIT_CODES[number])

    for number in _answered():
        signal.signal(number, leave)


def _answered() -> list[int]:
    return [n for n in _EXIT_CODES if n != _HANG_UP or signal.getsignal(n) != signal.SIG_IGN]


def _loads(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _again(number: int) -> None:
    """Send a signal to this process once more, soon."""
    if sys.platform == "win32" or not hasattr(signal, "setitimer"):
        from threading import Timer

        Timer(0.02, _thread.interrupt_main, [number]).start()  # a `kill` of Windows would end the process
    else:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
        signal.setitimer(signal.ITIMER_REAL, 0.02)


def _unraisable(lost: Any) -> None:
    """A signal that came where Python can raise nothing, as inside a callback of its collector, comes once more."""
    if isinstance(lost.exc_value, Stopped):
        _Stopping.stopped = None
        _again(lost.exc_value.exit_code - 128)
    else:
        sys.__unraisablehook__(lost)
