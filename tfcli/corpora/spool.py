"""Streams that can be read only once, kept in a temporary file so that they can be read again."""

import functools
import io
import os
import sys
import tempfile
import weakref
from pathlib import Path
from typing import BinaryIO

from tfcli import machine
from tfcli.corpora.source import Kind
from tfcli.errors import BrokenInputError, TfcliError

CHUNK = 1 << 20
"""Bytes that are read at a time."""

_MOST = 6
"""Of the machine's memory, the part that one text of a stream may have: a longer one may never end."""


class Spool:
    """The bytes of a stream in a temporary file, removed when nobody needs them or the program ends.

    Raises:
        TfcliError: the temporary folder is full or cannot be written to.
        BrokenInputError: it is to be one text, and may never end.
    """

    def __init__(self, stream: BinaryIO, label: str, *, is_text: bool = False) -> None:
        try:
            descriptor, name = tempfile.mkstemp(prefix="tfcli-")
        except OSError as error:
            raise _no_room(label, error) from error
        self.path = Path(name)
        weakref.finalize(self, self.path.unlink, missing_ok=True)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            most, size = machine.memory() // _MOST, 0
            while chunk := stream.read(CHUNK):
                size += len(chunk)
                if is_text and size > most:
                    problem = f"There are more than {most:,} bytes in {label}, which may never end"
                    raise BrokenInputError(problem, "write them to a file, and name that")
                self._keep(file, chunk, label)

    def _keep(self, file: io.FileIO, chunk: bytes, label: str) -> None:
        left = memoryview(chunk)
        try:
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            raise _no_room(label, error) from error


@functools.cache
def standard_input(kind: Kind) -> Spool:
    """What arrives on standard input, read to its end once in the life of the program."""
    return Spool(sys.stdin.buffer, "standard input", is_text=kind == "text")


def _no_room(label: str, error: OSError) -> TfcliError:
    problem = f"Cannot keep a copy of {label} in {tempfile.gettempdir()}: {error.strerror or error}"
    return TfcliError(problem, "free the disk or set TMPDIR to a folder with more room")
