"""Exit codes: an exception becomes one sentence on stderr and the documented code."""

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from tfcli.cli.signals import NOTHING_LEFT, exit_code_of, stopped
from tfcli.cli.terminal import Terminal
from tfcli.errors import Interrupted, TfcliError


@contextmanager
def exit_codes(terminal: Terminal, *, debug: bool = False) -> Iterator[None]:
    """End the program with the code that belongs to what the block raises.

    Args:
        debug: show the traceback before the sentence.
    """
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
        if debug:
            traceback.print_exc()
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
    is_refused = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)  # by PyTorch, on a CPU
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or is_refused:
        return "There is not enough memory; use a smaller model, batch or context.", 1
    if isinstance(error, OSError):
        if error.errno == errno.ENAMETOOLONG:  # nothing has been made under it
            return f"{error.filename or 'A name'} is too long a name; shorten it.", 2
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{where}; check the path, its permissions and the space left.", 1
    # Not foreseen: a fault of the program, which must not look like one of the user's.
    return f"tfcli has a fault: {type(error).__name__}: {error}; --debug shows where it happened.", 1


def discard_unwritten() -> None:
    """What is still buffered for a reader that has gone, or for a full disk, and all that follows, is written
    nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
