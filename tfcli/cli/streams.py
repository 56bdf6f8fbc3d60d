"""A stderr that may fail. What is said there is beside the work, and no reason to stop it."""

from contextlib import suppress
from typing import IO, Any


class Lossy:
    """A stream whose text is lost where it cannot be written: the disk of a log is full, or nobody reads any more."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, if it can be."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if it can be."""
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's own."""
        return getattr(self._stream, name)
