"""Reading text files: UTF-8, plain or compressed (gzip, Zstandard), and standard input, kept in a temporary file.

A text is exactly what the file says, or an error that says why not. The text reader of the `datasets` library turns
every line ending into a line feed and does not say which byte is wrong, so text is read here.
"""

import codecs
import functools
import gzip
import io
import os
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from tfcli import machine
from tfcli.corpora import Kind, LongText, Text
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import file_digest
from tfcli.outputs import reading

COMPRESSIONS = (".gz", ".zst")
LONGEST = 64 << 20
"""Bytes of a line, or of a record of several lines."""
CHUNK = 1 << 20
"""Bytes that are read at a time."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST = 6
"""Of the machine's memory, the part that one text of a stream may have: a longer one may never end."""


class Spool:
    """The bytes of a stream in a temporary file, removed when nobody needs them or the program ends."""

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


@dataclass(frozen=True)
class StoredFile:
    """A file that can be read any number of times."""

    path: Path
    label: str
    """What messages call it."""
    suffix: str
    """The kind of content: `.txt`, `.csv`, …, without the compression."""
    compression: str = ""
    """`.gz`, `.zst` or nothing."""
    spool: Spool | None = None
    """Keeps a temporary file alive as long as it can be read."""

    def digest(self) -> str:
        """A fingerprint of the bytes and of how they are read."""
        return f"{self.suffix}{self.compression}:{file_digest(self.path)}"

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Yield the bytes, decompressed; BrokenInputError where it is truncated, none, or the disk fails."""
        try:
            with _opened(self.path, self.compression) as stream:
                yield stream
        except (EOFError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise BrokenInputError(f"Cannot read {self.label}: {error.strerror}", "check the disk") from error
            problem = f"{self.label} is truncated or is no {self.compression} file ({error})"
            raise BrokenInputError(problem, "fetch or compress it again") from error


def stored_file(path: Path) -> StoredFile:
    """Describe the file at `path` by the suffixes of its name; UsageError where this command is to write it, too."""
    reading(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSIONS else ""
    return StoredFile(path, str(path), suffixes[-1] if suffixes else "", compression)


def require_content(file: StoredFile) -> None:
    """Refuse a file that cannot be opened, holds no byte, or is compressed and broken from the start."""
    try:
        file.path.open("rb").close()
    except OSError as error:
        raise UsageError(f"Cannot read {file.label}: {error.strerror}", "check its permissions") from error
    with file.open() as stream:
        if not stream.read(1):
            raise UsageError(f"{file.label} is empty", "give it some text or name another source")


def read_text(file: StoredFile) -> Text:
    """The whole file as one text, line endings as they are, without a byte order mark; a long one is read when used.
    BrokenInputError where it is binary, not UTF-8, or truncated."""
    stretches = _stretches(file)
    first = next(stretches, "")
    return first if next(stretches, None) is None else LongText(partial(_stretches, file))


def read_lines(file: StoredFile) -> Iterator[str]:
    """The lines of a file with their endings; only a line feed ends a line. BrokenInputError as `read_text`, and where
    a line has more than `LONGEST` bytes."""
    offset = 0
    with file.open() as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST + 1), b""), 1):
            if len(line) > LONGEST:
                raise too_long(file, number)
            yield _decode(line, file, offset)[0]
            offset += len(line)


def too_long(file: StoredFile, number: int) -> BrokenInputError:
    """The error of a record that ends in this line, or would."""
    problem = f"The record in line {number} of {file.label} is longer than {LONGEST:,} bytes"
    return BrokenInputError(problem, "give shorter records, or a .txt file for each text")


def _opened(path: Path, compression: str) -> BinaryIO:
    if compression == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if compression == ".zst":
        import pyarrow

        # pyarrow comes with `datasets` and reads zstd, which the standard library cannot before Python 3.14.
        return cast(BinaryIO, io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd")))
    return path.open("rb")


def _stretches(file: StoredFile) -> Iterator[str]:
    offset, left = 0, b""  # what is left begins a character
    with file.open() as stream:
        while chunk := stream.read(CHUNK):
            text, used = _decode(left + chunk, file, offset, is_last=False)
            yield text
            left, offset = (left + chunk)[used:], offset + used
    if left:
        _decode(left, file, offset)


def _decode(data: bytes, file: StoredFile, offset: int, *, is_last: bool = True) -> tuple[str, int]:
    """The text, and how many bytes it is; unless they are the last, a character may end behind them."""
    if (position := data.find(b"\0")) >= 0:
        problem = f"{file.label} is binary, not text: byte {offset + position} is 0"
        raise BrokenInputError(problem, "give text in UTF-8")
    start = len(_BYTE_ORDER_MARK) if offset == 0 and data.startswith(_BYTE_ORDER_MARK) else 0
    try:
        text, used = codecs.utf_8_decode(memoryview(data)[start:], "strict", is_last)
    except UnicodeDecodeError as error:
        position = start + error.start
        problem = f"{file.label} is not valid UTF-8: byte {offset + position} is 0x{data[position]:02x}"
        raise BrokenInputError(problem, "save it as UTF-8") from error
    return text, start + used
