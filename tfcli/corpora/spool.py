"""Streams that can be read only once, kept in a temporary file so that they can be read again."""

import functools
import io
import os
import sys
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tfcli.errors import BrokenInputError, TfcliError

LARGEST = 2 << 30
"""Bytes of what is held as a whole: a document that is a file, or a stream that can be read only once."""

_CHUNK = 1 << 20


class Spool:
    """The bytes of a stream in a temporary file, removed when nobody needs them or the program ends.

    Raises:
        TfcliError: the temporary folder is full or cannot be written to.
        BrokenInputError: the stream has more than `LARGEST` bytes, and may never end.
    """

    def __init__(self, stream: BinaryIO, label: str) -> None:
        try:
            descriptor, name = tempfile.mkstemp(prefix="tfcli-")
        except OSError as error:
            raise _no_room(label, error) from error
        self.path = Path(name)
        weakref.finalize(self, self.path.unlink, missing_ok=True)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for chunk in bounded(stream, label):
                self._keep(file, chunk, label)

    def _keep(self, file: io.FileIO, chunk: bytes, label: str) -> None:
        left = memoryview(chunk)
        try:
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            raise _no_room(label, error) from error


def bounded(stream: BinaryIO, label: str) -> Iterator[bytes]:
    """What a stream holds, piece by piece.

    Raises:
        BrokenInputError: that is more than `LARGEST` bytes, and may never end.
    """
    size = 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        if size > LARGEST:
            problem = f"There are more than {LARGEST:,} bytes in {label}"
            raise BrokenInputError(problem, "divide it into several files, or make it a table")
        yield chunk


@functools.cache
def standard_input() -> Spool:
    """What arrives on standard input, read to its end once in the life of the program."""
    return Spool(sys.stdin.buffer, "standard input")


def _no_room(label: str, error: OSError) -> TfcliError:
    problem = f"Cannot keep a copy of {label} in {tempfile.gettempdir()}: {error.strerror or error}"
    return TfcliError(problem, "free the disk or set TMPDIR to a folder with more room")
