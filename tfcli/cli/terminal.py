"""Where a command writes: results to stdout, everything else to stderr, with the user's choice of colour."""

import json
import os
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console

Color = Literal["auto", "always", "never"]


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

    def text(self, text: str) -> None:
        """Print a line of the result as it is: never wrapped, never styled."""
        self.out.print(text, markup=False, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Say something beside the result, unless --quiet."""
        if not self.quiet:
            self.err.print(text, markup=False, highlight=False, soft_wrap=True, style="dim")

    def json(self, value: Any) -> None:
        """Print one JSON value on one line."""
        print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)

    def _console(self, *, stderr: bool) -> "Console":
        from rich.console import Console

        if self.color == "always":
            return Console(stderr=stderr, force_terminal=True, color_system="truecolor", no_color=False)
        if self.color == "never" or os.environ.get("NO_COLOR"):
            return Console(stderr=stderr, color_system=None, no_color=True)
        return Console(stderr=stderr)


def is_terminal(stream: Any = None) -> bool:
    """Whether someone is reading stdout (or another stream) as it is written."""
    return bool((stream or sys.stdout).isatty())
