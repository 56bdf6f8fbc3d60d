"""Rich's console, which leaves it to the entry point what a closed pipe means."""

from rich.console import Console


class PipeConsole(Console):
    """Lets a BrokenPipeError through, where rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Called by rich while a BrokenPipeError is handled."""
        raise
