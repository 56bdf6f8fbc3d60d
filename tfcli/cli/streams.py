"""Standard streams: an error of stdout names it, and stderr drops what it cannot write, which stops no work."""

from contextlib import suppress
from typing import IO, Any


class Named:
    """A stream whose failures carry its name, which Python leaves out."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._name(error)
            raise

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._name(error)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _name(self, error: OSError) -> None:
        error.filename = self._stream.name.strip("<>")


class Lossy(Named):
    """A stream whose text is lost where it cannot be written: the disk of a log is full, or nobody reads any more."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()
