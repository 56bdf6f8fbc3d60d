"""Where a command writes: results to stdout, everything else to stderr, with the user's choice of colour."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Literal

from tfcli.errors import readable

if TYPE_CHECKING:
    from rich.console import Console

Color = Literal["auto", "always", "never"]
_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|[\x00\xe0].|.", re.DOTALL)
_BACK = {"\x7f", "\b", "\x1b[D", "\x1bOD", "\x1b[A", "\x1bOA", "\x1b[5~", "\xe0K", "\x00K", "\xe0H", "\x00H"}
"""Backspace, left, up and a page up, as Unix and Windows send them."""


def _keys(stack: ExitStack) -> Callable[[], str]:
    """What reads the keys that are typed next, which are not echoed until the stack is closed."""
    if sys.platform == "win32":
        import typer

        return typer.getchar
    import termios
    import tty

    stack.callback(termios.tcsetattr, 0, termios.TCSADRAIN, termios.tcgetattr(0))
    tty.setcbreak(0, termios.TCSADRAIN)
    return lambda: os.read(0, 32).decode(errors="replace")


@dataclass
class Terminal:
    """The two consoles of one command and how much it says."""

    color: Color = "auto"
    quiet: bool = False
    verbose: bool = False

    @cached_property
    def out(self) -> "Console":
        """stdout: the result and nothing else."""
        return self._console(stderr=False)

    @cached_property
    def err(self) -> "Console":
        """stderr: progress, notes and warnings."""
        return self._console(stderr=True)

    def show(self, renderable: Any) -> None:
        """Print a part of the result."""
        self.out.print(renderable, markup=False, highlight=False)

    def step_through(self, view: Any) -> None:
        """Show a `Stepwise` view one step at a time, as keys ask; without a terminal, all at once."""
        if not (is_terminal() and is_terminal(sys.stdin)) or self.out.is_dumb_terminal:
            self.note("--step waits for keys, and this is no terminal: here are all steps at once.")
            return self.show(view)
        from rich.console import Group
        from rich.segment import Segment, SegmentLines
        from rich.text import Text

        from tfcli.draw.paging import pages

        head, first, *others = view.parts()
        steps, at = [Group(head, "", first), *others], 0
        with self.out.screen(), ExitStack() as stack, suppress(EOFError):
            typed = _keys(stack)
            while True:
                width, room = self.out.width, max(1, self.out.height - 1)
                screens = []
                for number, step in enumerate(steps, start=1):
                    for page_number, page in enumerate(pages(step, self.out, room)):
                        place = f"Step {number} of {len(steps)}"
                        if page_number > 0:
                            place += ", the rest"
                        if page.is_cut:
                            place += " (cut: too high)"
                        screens.append((place, page.lines))
                at = min(max(at, 0), len(screens) - 1)
                place, lines = screens[at]
                bar = Text(f"{place} · Enter goes on, Backspace back, q ends", "reverse", no_wrap=True, overflow="crop")
                self.out.clear()
                self.out.print(SegmentLines(Segment.set_shape(lines, width, room), new_lines=True), bar, sep="", end="")
                for key in _KEY.findall(typed()) or "q":
                    if key in "qQ\x04\x1b":
                        return None
                    at += -1 if key in _BACK else 1

    def text(self, text: str) -> None:
        """Print a line of the result: never wrapped, never styled."""
        self.write(text + "\n")

    def message(self, text: str, style: str = "") -> None:
        """Print a line of the result that is made for people: into a pipe, too, without control characters."""
        from tfcli.draw.safe import printable

        self.write(printable(text, keep_newlines=True) + "\n", style)

    def write(self, text: str, style: str = "") -> None:
        """Print a piece of the result at once: as it is into a pipe, without control characters to people."""
        if is_terminal() or self.out.is_terminal:  # the latter by --color always, too
            from tfcli.draw.safe import printable

            text = printable(text, keep_newlines=True)
        if style and self.out.is_terminal:
            self.out.print(text, end="", style=style, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, end="", flush=True)

    def note(self, text: str) -> None:
        """Say something beside the result, unless --quiet."""
        if not self.quiet:
            self._say(text, style="dim", wrap=is_terminal(sys.stderr))

    def detail(self, text: str) -> None:
        """Say what only --verbose asks for."""
        if self.verbose:
            self._say(text, style="dim", wrap=is_terminal(sys.stderr))

    @contextmanager
    def progress(self) -> Iterator[Callable[[str], None]]:
        """A line that says what is going on, where someone watches: call what this gives with its text."""
        if self.quiet or not self.err.is_terminal:
            yield lambda _: None
            return
        with self.err.status("") as status:
            yield status.update

    def error(self, sentence: str) -> None:
        """Say what went wrong, with no more of a long value than its ends."""
        self._say(f"tfcli: {readable(sentence)}", keep_newlines=False)

    def json(self, value: Any) -> None:
        """Print one JSON value on one line. What could steer a terminal is escaped, which changes no value.

        The results of commands that compute with a model end with the number of CPU threads.
        """
        from tfcli.draw.safe import UNSAFE
        from tfcli.threads import threads_in_use

        threads = threads_in_use()
        if threads is not None and isinstance(value, dict) and "threads" not in value:
            value = value | {"threads": threads}
        line = json.dumps(value, ensure_ascii="utf" not in (sys.stdout.encoding or "").lower(), allow_nan=False)
        print(UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], line), flush=True)

    def result(self, record: Any, view: Callable[[Any], Any], *, json: bool) -> None:
        """Print the result of a command: as JSON, or what `view` draws of it."""
        if json:
            from tfcli.draw.tables import to_json

            self.json(to_json(record))
        else:
            self.show(view(record))

    def _say(self, text: str, style: str | None = None, *, keep_newlines: bool = True, wrap: bool = False) -> None:
        """Print to stderr, on one line for programs, or with lines that end between words for people (`wrap`)."""
        from tfcli.addresses import masked
        from tfcli.draw.safe import printable

        text = printable(masked(text), keep_newlines=keep_newlines)
        self.err.print(text, markup=False, highlight=False, soft_wrap=not wrap, style=style)

    def _console(self, *, stderr: bool) -> "Console":
        from rich.console import Console

        class PipeConsole(Console):
            def on_broken_pipe(self) -> None:
                """Leave it to the entry point what a closed pipe means; rich would exit with 1."""
                raise

        if self.color == "always":
            return PipeConsole(stderr=stderr, force_terminal=True, color_system="truecolor", no_color=False)
        plain: Any = {"color_system": None, "no_color": True}
        return PipeConsole(stderr=stderr, **(plain if self.color == "never" or os.environ.get("NO_COLOR") else {}))


def is_terminal(stream: Any = None) -> bool:
    """Whether someone is reading stdout (or another stream) as it is written."""
    return bool((stream or sys.stdout).isatty())


class Named:
    """A stream whose failures carry its name, which Python leaves out."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As the stream does it."""
        with self._failing():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As the stream does it."""
        with self._failing():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = self._stream.name.strip("<>")
            raise


class Lossy(Named):
    """A stream whose text is lost where it cannot be written: the disk of a log is full, or nobody reads any more."""

    @contextmanager
    def _failing(self) -> Iterator[None]:
        with suppress(OSError):
            yield
