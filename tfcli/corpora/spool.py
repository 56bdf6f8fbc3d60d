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

from tfcli import machine
from tfcli.corpora.source import Kind
from tfcli.errors import BrokenInputError, TfcliError

_CHUNK = 1 << 20
_DECODED = 6  # times the bytes of a text: the bytes, up to four for each as letters, and one for what goes on


class Spool:
    """The bytes of a stream in a temporary file, removed when nobody needs them or the program ends.

    Raises:
        TfcliError: the temporary folder is full or cannot be written to.
        BrokenInputError: it is to be one text, and fits into no memory.
    """

    def __init__(self, stream: BinaryIO, label: str, *, is_text: bool = False) -> None:
        try:
            descriptor, name = tempfile.mkstemp(prefix="tfcli-")
        except OSError as error:
            raise _no_room(label, error) from error
        self.path = Path(name)
        weakref.finalize(self, self.path.unlink, missing_ok=True)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for chunk in pieces(stream, label, is_text=is_text):
                self._keep(file, chunk, label)

    def _keep(self, file: io.FileIO, chunk: bytes, label: str) -> None:
        left = memoryview(chunk)
        try:
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            raise _no_room(label, error) from error


def pieces(stream: BinaryIO, label: str, *, is_text: bool) -> Iterator[bytes]:
    """What a stream holds, piece by piece.

    Raises:
        BrokenInputError: it is to be one text, which is held as a whole, and the machine's memory cannot.
    """
    most, size = machine.memory() // _DECODED, 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        if is_text and size > most:
            problem = f"There are more than {most:,} bytes in {label}, too many for one text in this machine's memory"
            raise BrokenInputError(problem, "divide it into several files, or make it a table")
        yield chunk


@functools.cache
def standard_input(kind: Kind) -> Spool:
    """What arrives on standard input, read to its end once in the life of the program."""
    return Spool(sys.stdin.buffer, "standard input", is_text=kind == "text")


def _no_room(label: str, error: OSError) -> TfcliError:
    problem = f"Cannot keep a copy of {label} in {tempfile.gettempdir()}: {error.strerror or error}"
    return TfcliError(problem, "free the disk or set TMPDIR to a folder with more room")
