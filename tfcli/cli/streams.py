"""Standard streams: a stdout that says when it cannot be written, and a stderr that is lost instead, for what is said
there is no reason to stop the work."""

from contextlib import suppress
from typing import IO, Any


class Named:
    """A stream whose failures carry its name, which Python leaves out."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._name(error)
            raise

    def flush(self) -> None:
        """Flush."""
        try:
            self._stream.flush()
        except OSError as error:
            self._name(error)
            raise

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's own."""
        return getattr(self._stream, name)

    def _name(self, error: OSError) -> None:
        error.filename = self._stream.name.strip("<>")


class Lossy(Named):
    """A stream whose text is lost where it cannot be written: the disk of a log is full, or nobody reads any more."""

    def write(self, text: str) -> int:
        """Write, if it can be."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if it can be."""
        with suppress(OSError):
            self._stream.flush()
