"""Reading text files: UTF-8, plain or compressed (gzip, Zstandard, bzip2, xz), and standard input, kept in a file. A
text is exactly what the file says, or an error that says why not. The text reader of the `datasets` library turns every
line ending into a line feed and does not say which byte is wrong, so text is read here."""

import codecs
import functools
import hashlib
import os
import re
import shlex
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from tfcli import machine
from tfcli.corpora import Kind, LongText, Text
from tfcli.corpora.compression import COMPRESSIONS, decompressed
from tfcli.corpora.remote import State, identity, open_remote, remote_state
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import digest, file_digest
from tfcli.outputs import reading
from tfcli.recipe.data import Header
from tfcli.records.dataset import NONE_SKIPPED, SkippedRecords

LONGEST = 64 << 20  # bytes of a line, or of a record of several lines
CHUNK = 1 << 20  # bytes that are read at a time
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_BYTE_ORDER_MARKS = (  # that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_SAMPLED_BYTES = 256
_MOST = 6  # of the machine's memory, the part that one text of a stream may have: a longer one may never end


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
    label: str  # what messages call it
    suffix: str  # the kind of content: `.txt`, `.csv`, …, without the compression
    compression: str = ""  # `.gz`, `.zst` or nothing
    spool: Spool | None = None  # keeps a temporary file alive as long as it can be read
    url: str = ""  # where it is, if not on this machine's disk
    state: State = ()  # its size and time, or what a store says of it, when it was described

    def digest(self) -> str:
        """Fingerprint of the bytes and of how they are read; elsewhere, of address, size and entity tag, if any."""
        if not self.url:
            content = file_digest(self.path)
            self.require_unchanged()
        elif known := identity(self.state):
            content = digest(self.url, known)
        else:
            with self.raw() as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()[:16]  # type: ignore[arg-type]
        return f"{self.suffix}{self.compression}:{content}"

    def raw(self) -> BinaryIO:
        """The bytes as they are stored."""
        return open_remote(self.url) if self.url else self.path.open("rb")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Yield the bytes, decompressed.

        Raises:
            BrokenInputError: The file is truncated, damaged or not what its name says, or the disk fails.
            TfcliError: The file has changed since it was described.
        """
        try:
            with self.raw() as raw, decompressed(raw, self.compression, self.label) as stream:
                try:
                    yield stream
                except BrokenInputError:
                    if self.compression:
                        _require_undamaged(stream)
                    raise
        except BrokenInputError:
            self.require_unchanged()
            raise
        except OSError as error:
            self.require_unchanged()
            problem = f"Cannot read {self.label}: {error.strerror or error}"
            raise BrokenInputError(problem, "check the disk") from error
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Refuse, by a TfcliError, a file that was written to, replaced or removed since it was described."""
        if self.spool is None and self.state and (now := _state(self.path, self.url)) != self.state:
            before, after = (dict(state).get("size") for state in (self.state, now))
            how = f"it had {before} bytes and has {after}" if before != after else "it was written to"
            problem = f"{self.label} has changed while it was read: {how if now else 'it is gone'}"
            raise TfcliError(problem, "give the command again when nothing writes to it any more")


def _require_undamaged(stream: BinaryIO) -> None:
    """Read on after an error in the text: damage shows at the end of a block, after the nonsense it brings."""
    with suppress(ValueError):  # it is closed
        for _ in range(LONGEST // CHUNK):
            if not stream.read(CHUNK):
                break


def stored_file(path: Path) -> StoredFile:
    """Describe the file at `path` by the suffixes of its name; UsageError where this command is to write it, too."""
    reading(path)
    return StoredFile(path, str(path), *name_parts(path), state=_state(path))


def remote_file(url: str) -> StoredFile:
    """Describe a file that is elsewhere; UsageError where it is not there, TfcliError where nothing can be reached."""
    path = Path(urlsplit(url).path if "?" in url else url)
    return StoredFile(path, url, *name_parts(path), url=url, state=remote_state(url))


def name_parts(path: Path) -> tuple[str, str]:
    """The kind of content that a name ends in, and the compression: `.jsonl` and `.gz`, or nothing."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSIONS else ""
    return (suffixes[-1] if suffixes else ""), compression


def _state(path: Path, url: str = "") -> State:
    if url:
        return remote_state(url)
    with suppress(OSError):  # it has gone
        about = path.stat()
        return ("size", f"{about.st_size:,}"), ("mtime", str(about.st_mtime_ns))
    return ()


def require_readable(file: StoredFile) -> None:
    """Refuse a file that cannot be opened."""
    try:
        file.raw().close()
    except OSError as error:
        raise UsageError(f"Cannot read {file.label}: {error.strerror}", "check its permissions") from error


def require_content(file: StoredFile) -> None:
    """Refuse a file that cannot be opened, holds no byte, or is compressed and broken from the start."""
    require_readable(file)
    with file.open() as stream:
        if not stream.read(1):
            raise UsageError(f"{file.label} is empty", "give it some text or name another source")


Report = Callable[[BrokenInputError], None]  # raises the error of a record that cannot be read, or leaves it out


class BadRecords:
    """The records of a file that cannot be read: the first one is refused, or all are left out and counted."""

    def __init__(self, *, skips: bool, require_unchanged: Callable[[], None] = lambda: None) -> None:
        self.skips, self.found, self._require_unchanged = skips, NONE_SKIPPED, require_unchanged

    def reading(self) -> Report:
        """What one reading of the file, from its beginning, reports to: the next one counts none of them again."""
        met = 0

        def report(error: BrokenInputError) -> None:
            nonlocal met
            self._require_unchanged()
            if not self.skips:
                raise error
            met += 1
            if met > self.found.count:
                self.found = self.found.joined(SkippedRecords(1, (error.problem,)))

        return report


@dataclass(frozen=True)
class FileReading:
    """How a table is read.

    Attributes:
        label: What messages call the file.
        first: The cells of the first row of a CSV or TSV file; none of another table.
        is_header: Whether these name the columns.
        is_certain: Whether nothing has to be said about this decision.
        columns: The columns that are read, by name or number.
        places: The places of these columns in a CSV or TSV file.
        unread: The names of the other columns, if the choice was not the user's.
        labels: The one of these that holds labels, if any.
        needs_columns: Whether `--task classify` does not find this column and the text by itself.
        is_label_first: Whether the values alone say that labels come before their texts.
        is_new: Whether versions before `data.header` read a CSV or TSV file in another way.
    """

    label: str
    first: tuple[str, ...]
    is_header: bool
    is_certain: bool
    columns: tuple[str, ...]
    places: tuple[int, ...]
    unread: tuple[str, ...]
    labels: str | None
    needs_columns: bool
    is_label_first: bool
    is_new: bool


@dataclass(frozen=True)
class How:
    """How files are read.

    Attributes:
        kind: What is read from them.
        columns: The columns of tables that are asked for; None: the obvious ones.
        separator: What is between two documents of a plain text file.
        skips: Whether records that cannot be read are left out.
        header: Whether the first row of a CSV or TSV file names the columns.
        as_before: Read CSV and TSV files as versions before `data.header` did.
        bad: The records of each file that cannot be read.
        tables: How each table is read.
    """

    kind: Kind
    columns: Sequence[str] | None
    separator: str | None
    skips: bool
    header: Header = "auto"
    as_before: bool = False
    bad: list[BadRecords] = field(default_factory=list)
    tables: list[FileReading] = field(default_factory=list)

    def bad_records(self, require_unchanged: Callable[[], None] = lambda: None) -> BadRecords:
        """Those of one more file."""
        self.bad.append(BadRecords(skips=self.skips, require_unchanged=require_unchanged))
        return self.bad[-1]

    def skipped(self) -> SkippedRecords:
        """What was left out of all files so far."""
        return reduce(SkippedRecords.joined, (one.found for one in self.bad), NONE_SKIPPED)


class BadLine(str):
    """A line that cannot be read and has been reported, as far as it can be."""


_BLANK_LINE = "blank line"
_BLANK = rb"\n[ \t\r\f\v]*\n"


def read_texts(file: StoredFile, separator: str | None, bad: BadRecords) -> Iterator[Text]:
    """The documents of a plain text file: the whole of it, or what stands between its record separators, without the
    one line end that may be on either side of them, each of `LONGEST` bytes at most."""
    report = bad.reading()
    if separator is None:
        try:
            if bad.skips:  # all of it is looked at before any of it is used
                deque(_stretches(file), maxlen=0)
            yield read_text(file)
        except BrokenInputError as error:
            report(error)
        return
    for data, offset, line in _between(file, separator):
        try:
            part = _decode(data, file, offset, line)[0]
        except BrokenInputError as error:
            report(error)
        else:
            part = part.removeprefix("\n") if part.startswith("\n") else part.removeprefix("\r\n")
            if part.endswith("\n") or separator == _BLANK_LINE:
                part = part.removesuffix("\n").removesuffix("\r")
            yield part


def _between(file: StoredFile, separator: str) -> Iterator[tuple[bytes, int, int]]:
    """What stands between separators, with the number of its first byte and of its first line."""
    mark = re.compile(_BLANK if separator == _BLANK_LINE else re.escape(separator.encode()))
    held, offset, line = b"", 0, 1
    with file.open() as stream:
        while chunk := stream.read(CHUNK):
            held, start = held + chunk, 0
            for found in mark.finditer(held):
                yield held[start : found.start()], offset + start, line
                line += held.count(b"\n", start, found.end())
                start = found.end()
            held, offset = held[start:], offset + start
            if len(held) > LONGEST:
                problem = f"{file.label} has more than {LONGEST:,} bytes without {separator!r}, from line {line} on"
                raise TfcliError(problem, "name what separates its documents in data.separator, or leave it out")
    yield held, offset, line


def read_text(file: StoredFile) -> Text:
    """The whole file as one text, line endings as they are, without a byte order mark; a long one is read when used.
    BrokenInputError where it is binary, not UTF-8, or truncated."""
    stretches = _stretches(file)
    first = next(stretches, "")
    return first if next(stretches, None) is None else LongText(partial(_stretches, file))


def read_lines(file: StoredFile, report: Report) -> Iterator[str]:
    """The lines of a file with their endings; only a line feed ends a line. Reported, and a `BadLine` where left out,
    is one that is binary, not UTF-8, or longer than `LONGEST` bytes; BrokenInputError where the file is truncated."""
    offset = 0
    with file.open() as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST + 1), b""), 1):
            try:
                if len(line) > LONGEST:
                    raise too_long(file, number)
                text = _decode(line, file, offset, number)[0]
            except BrokenInputError as error:
                report(error)
                text = BadLine("" if len(line) > LONGEST else line.decode(errors="replace"))
                while len(line) > CHUNK and line[-1:] != b"\n":
                    offset += len(line)
                    line = stream.readline(LONGEST + 1)
            yield text
            offset += len(line)


def too_long(file: StoredFile, number: int) -> BrokenInputError:
    """The error of a record that ends in this line, or would."""
    problem = f"The record in line {number} of {file.label} is longer than {LONGEST:,} bytes"
    return BrokenInputError(problem, "give shorter records, or a .txt file for each text")


def _stretches(file: StoredFile) -> Iterator[str]:
    offset, line, left = 0, 1, b""  # what is left begins a character
    with file.open() as stream:
        while chunk := stream.read(CHUNK):
            text, used = _decode(left + chunk, file, offset, line, is_last=False)
            yield text
            left, offset, line = (left + chunk)[used:], offset + used, line + text.count("\n")
    if left:
        _decode(left, file, offset, line)


def _decode(data: bytes, file: StoredFile, offset: int, line: int, *, is_last: bool = True) -> tuple[str, int]:
    """The text, and how many bytes it is; `offset`, `line`: of the first. Unless `is_last`, a character may go on."""
    encoding = wide_encoding(data) if offset == 0 else None
    if encoding is not None:
        raise BrokenInputError(f"{file.label} is {encoding}, and text is read in UTF-8", _conversion(file, encoding))
    if (position := data.find(b"\0")) >= 0:
        place = f"byte {offset + position} is 0, in line {line + data.count(10, 0, position)}"
        raise BrokenInputError(f"{file.label} is binary, not text: {place}", "give text in UTF-8")
    start = len(_BYTE_ORDER_MARK) if offset == 0 and data.startswith(_BYTE_ORDER_MARK) else 0
    try:
        text, used = codecs.utf_8_decode(memoryview(data)[start:], "strict", is_last)
    except UnicodeDecodeError as error:
        position = start + error.start
        place = f"byte {offset + position} is 0x{data[position]:02x}, in line {line + data.count(10, 0, position)}"
        raise BrokenInputError(f"{file.label} is not valid UTF-8: {place}", "save it as UTF-8") from error
    return text, start + used


def wide_encoding(data: bytes) -> str | None:
    """The name of UTF-16 or UTF-32, if the beginning of a text is in one of them, as `iconv` takes it.

    >>> wide_encoding("\ufeffhello".encode("utf-16-le")), wide_encoding("hello".encode("utf-16-be"))
    ('UTF-16', 'UTF-16BE')
    """
    for mark, name in _WIDE_BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return name
    sample = data[: _SAMPLED_BYTES - _SAMPLED_BYTES % 2]
    even, odd = sample[::2], sample[1::2]
    # Of Latin letters, every other byte is zero; text in other scripts is only known by its mark.
    if odd and 2 * odd.count(0) > len(odd) and 0 not in even:
        return "UTF-16LE"
    if odd and 2 * even.count(0) > len(even) and 0 not in odd:
        return "UTF-16BE"
    return None


def _conversion(file: StoredFile, encoding: str) -> str:
    """How to convert a file to UTF-8."""
    command = f"iconv -f {encoding} -t UTF-8"
    if file.compression:
        return f"decompress it, and convert it with `{command}`"
    if file.spool or file.url:
        return f"convert it with `{command}`"
    converted = file.path.with_name(f"{file.path.stem}.utf8{file.path.suffix}")
    return f"convert it: `{command} {shlex.quote(str(file.path))} > {shlex.quote(str(converted))}`"
