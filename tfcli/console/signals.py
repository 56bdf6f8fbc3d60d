"""Ctrl-C, SIGTERM, a closed terminal and a closed pipe during training: finish the step, save, and say how to go on."""

import _thread
import errno
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from tfcli.addresses import masked
from tfcli.console.terminal import Terminal
from tfcli.errors import Interrupted, TfcliError
from tfcli.machine import of_unix

INTERRUPTED, TERMINATED, HUNG_UP, UNREAD = 130, 143, 129, 1
_ANSWERED = {"SIGINT": INTERRUPTED, "SIGBREAK": INTERRUPTED, "SIGTERM": TERMINATED, "SIGHUP": HUNG_UP}
# Of the signals that this system has: no SIGBREAK but on Windows, where there is no SIGHUP.
_EXIT_CODES = {getattr(signal, name): code for name, code in _ANSWERED.items() if hasattr(signal, name)}
_HANG_UP = getattr(signal, "SIGHUP", None)
NOTHING_LEFT = "Stopped; nothing is left half-written."
_NO_MEMORY = "There is not enough memory; use a smaller model, batch or context, or raise the limit on memory."
NO_MEMORY_LINE = f"tfcli: {_NO_MEMORY}\n".encode()  # made while there is memory
_UNLOADED = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")
_PATIENCE = 2.0  # seconds for which a command that has been stopped may tidy up, deaf to further signals
_LOADING = 10.0  # seconds for which a signal waits for a library to be loaded, whose C++ would lose it, or abort


class Stopped(KeyboardInterrupt):
    """A signal where nothing has to be saved first: it stops the work as Ctrl-C does."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


class _Stopping:
    """The signal that is ending the command of this process, and since when; or since when one waits for a library."""

    blocks = 0
    stopped: Stopped | None = None
    since = 0.0
    waits_since: float | None = None
    no_memory = False


def exit_code_of(stopped: KeyboardInterrupt) -> int:
    """That of the signal; Python's own KeyboardInterrupt is Ctrl-C."""
    return stopped.exit_code if isinstance(stopped, Stopped) else INTERRUPTED


def stopped() -> Stopped | None:
    """The signal that is ending this command, whatever a library has made of it; none that was swallowed before."""
    return _Stopping.stopped if time.monotonic() - _Stopping.since < _PATIENCE else None


class StopRequest:
    """Set, while it is armed, by the first signal or a closed pipe. An unarmed or second signal stops at once."""

    def __init__(self) -> None:
        self.armed = False
        self.exit_code: int | None = None

    def asked(self) -> bool:
        """Whether to stop after this step."""
        return self.exit_code is not None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.asked() and number == _HANG_UP:
            return  # a terminal that closes says so twice: by the shell, and by the system
        if not self.armed or self.asked():
            raise Stopped(_EXIT_CODES[number])
        self.exit_code = _EXIT_CODES[number]


@contextmanager
def stop_on_signals(request: StopRequest | None = None) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP, unless nohup ignores it, into a request for as long as the block lasts."""
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
    """Answer signals where no work is under way: end the process at once, with the code of the command, if it ran."""

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
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


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


@contextmanager
def exit_codes(terminal: Terminal, *, debug: bool = False) -> Iterator[None]:
    """End the program with the code that belongs to what the block raises; `debug` shows the traceback, too."""
    try:
        try:
            yield
        except SystemExit as ended:
            # Where the reader has gone, rich and typer end with 1.
            if ended.code and not isinstance(ended.__context__, BrokenPipeError):
                discard_unwritten()
                raise
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone (`| head`): the end of the output is no error.
        discard_unwritten()
        raise SystemExit(0) from None
    except (Exception, KeyboardInterrupt) as error:
        if is_out_of_memory(error):
            _end_without_memory(error, debug=debug)
        if debug:
            print(masked(traceback.format_exc()), end="", file=sys.stderr)
        discard_unwritten()
        sentence, exit_code = explained(error if isinstance(error, Interrupted) else stopped() or error)
        terminal.error(sentence)
        raise SystemExit(exit_code) from None


def explained(error: BaseException) -> tuple[str, int]:
    """The sentence and the exit code of what a command has raised."""
    if isinstance(error, TfcliError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return NOTHING_LEFT, exit_code_of(error)
    if is_out_of_memory(error):
        return _NO_MEMORY, 1
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # nothing has been made under it
        return f"{error.filename or 'A name'} is too long a name; shorten it.", 2
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{where}; check the path, its permissions and the space left.", 1
    # Not foreseen: a fault of the program, which must not look like one of the user's.
    return f"tfcli has a fault: {type(error).__name__}: {error}; --debug shows where it happened.", 1


def is_out_of_memory(error: BaseException) -> bool:
    """Whether there was no memory left: for Python, for PyTorch, for a process, or to load a library."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, RuntimeError):
        return "can't allocate memory" in str(error)  # by PyTorch, on a CPU
    if isinstance(error, ImportError):
        return _has_memory_limit() and any(map(_is_unloaded_library, _chain(error)))
    return isinstance(error, OSError) and error.errno == errno.ENOMEM


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_unloaded_library(error: BaseException) -> bool:
    """Whether the system had no memory for a shared library; it says the same of a disk that runs no programs."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _UNLOADED)


def _has_memory_limit() -> bool:
    """Whether this process may have a part of the machine's memory alone (`ulimit -v`)."""
    resource = of_unix("resource")
    return resource is not None and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _end_without_memory(error: BaseException, *, debug: bool) -> NoReturn:
    """End the program with one sentence, for which rich and its modules may have no memory."""
    _Stopping.no_memory = True
    if debug:
        with suppress(MemoryError):
            traceback.print_exc()
    for link in _chain(error):
        link.__traceback__ = None  # the frames keep what was too large
    with suppress(MemoryError, OSError):
        discard_unwritten()
    try:
        sys.stderr.write(f"tfcli: {_NO_MEMORY}\n")
        sys.stderr.flush()
    except MemoryError:
        os.write(2, NO_MEMORY_LINE)
    raise SystemExit(1) from None


def silence_exit() -> None:
    """Where memory has run out, lose what libraries still write to stderr while the program ends."""
    if _Stopping.no_memory:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def discard_unwritten() -> None:
    """Write nowhere what is buffered for a reader that has gone, or for a full disk, and all that follows."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
