"""Compressed files: gzip, Zstandard, bzip2 and xz, of one stream or of many after each other.

The `bz2` and `lzma` modules take anything after the first stream that is not another stream for the
end of the file. A text would end there without a word. Here every byte of a file belongs to a
stream or to valid padding, or it is an error that names the place.
"""

import bz2
import io
import lzma
import shlex
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from tfcli.errors import BrokenInputError

COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")

_INPUT_BYTES = 1 << 16
_OUTPUT_BYTES = 1 << 17

# Memory that a file may ask for. `xz -9` needs 65 MiB. A header can ask for 4 GiB.
_XZ_MEMORY = 512 << 20
# libzstd reads no larger window unless it is told to, and pyarrow has no option for it.
_ZSTD_WINDOW = 128 << 20

_AGAIN = "fetch or compress it again"


def decompressed(raw: BinaryIO, compression: str, label: str) -> BinaryIO:
    """The decompressed bytes of a file.

    Args:
        raw: The file as it is stored.
        compression: One of `COMPRESSIONS`; "" for a file that is not compressed.
        label: What messages call the file.

    Returns:
        A stream, whose reading can raise a BrokenInputError.
    """
    if not compression:
        return raw
    if compression == ".zst":
        return io.BufferedReader(_ZstandardReader(raw, label), _OUTPUT_BYTES)
    return io.BufferedReader(_StreamReader(raw, label, _FORMATS[compression]), _OUTPUT_BYTES)


def _too_large(label: str, suffix: str, problem: str) -> BrokenInputError:
    """The error of a file that cannot be decompressed in the memory that there is."""
    read = shlex.quote(label)
    new = "NEW" + "".join(Path(label).suffixes[-2:])
    remedies = {
        ".xz": f"compress it again: `xz -dc {read} | xz -6 > {new}`",
        ".zst": f"compress it again: `zstd -dc --long=31 {read} | zstd > {new}`",
    }
    return BrokenInputError(f"{label} {problem}", remedies.get(suffix, "free some memory"))


class _Decoder(Protocol):
    """What decodes one stream: the interface of `bz2.BZ2Decompressor`."""

    @property
    def needs_input(self) -> bool: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipDecoder:
    """A decoder of `zlib` with the interface of the others. It compares the checksum and the length."""

    def __init__(self) -> None:
        gzip_header = 16
        self._decoder = zlib.decompressobj(zlib.MAX_WBITS + gzip_header)

    @property
    def needs_input(self) -> bool:
        return not self._decoder.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)


def _xz_decoder() -> _Decoder:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


@dataclass(frozen=True)
class _Format:
    """A format of compressed files.

    Attributes:
        suffix: How names of such files end.
        magic: The bytes with which a stream begins.
        padding: Zero bytes after a stream come in multiples of this; 0 allows none.
        decoder: Makes what decodes the next stream.
    """

    suffix: str
    magic: bytes
    padding: int
    decoder: Callable[[], _Decoder]


_FORMATS = {
    ".gz": _Format(".gz", b"\x1f\x8b", 1, _GzipDecoder),
    ".bz2": _Format(".bz2", b"BZh", 0, cast(Callable[[], _Decoder], bz2.BZ2Decompressor)),
    ".xz": _Format(".xz", b"\xfd7zXZ\x00", 4, _xz_decoder),
}


class _Reader(io.RawIOBase):
    """A stream of decompressed bytes that fails once more where it has failed."""

    _failure: BrokenInputError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._failure is not None:
            raise self._failure
        try:
            return self._read_into(buffer)
        except BrokenInputError as error:
            self._failure = error
            raise

    def _read_into(self, buffer: Any) -> int:
        raise NotImplementedError


class _StreamReader(_Reader):
    """Decodes one stream after the other, and counts them."""

    def __init__(self, raw: BinaryIO, label: str, kind: _Format) -> None:
        self._raw = raw
        self._label = label
        self._format = kind
        self._decoder: _Decoder | None = None
        self._rest = b""  # bytes that were read and belong to no stream yet
        self._bytes_read = 0
        self._number = 0  # of the stream, from 1
        self._begin = 0  # byte at which it begins

    def _read_into(self, buffer: Any) -> int:
        while self._decoder is not None or self._begin_stream():
            data = self._decode(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0

    def _begin_stream(self) -> bool:
        """Skip padding and begin the next stream; False at the end of the file."""
        self._skip_padding()
        magic = self._format.magic
        while len(self._rest) < len(magic) and self._read_more():
            pass
        if not self._rest:
            return False

        place = self._bytes_read - len(self._rest)
        if not magic.startswith(self._rest[: len(magic)]):
            raise self._no_stream(place)
        self._number += 1
        self._begin = place
        self._decoder = self._format.decoder()
        return True

    def _skip_padding(self) -> None:
        if self._number == 0 or self._format.padding == 0:
            return
        end_of_stream = self._bytes_read - len(self._rest)
        self._rest = self._rest.lstrip(b"\0")
        while not self._rest and self._read_more():
            self._rest = self._rest.lstrip(b"\0")
        num_zeros = self._bytes_read - len(self._rest) - end_of_stream
        if num_zeros % self._format.padding:
            problem = (
                f"{self._label} has {num_zeros} zero bytes after stream {self._number}, at byte {end_of_stream:,},"
                f" where padding comes in multiples of {self._format.padding}"
            )
            raise BrokenInputError(problem, _AGAIN)

    def _decode(self, size: int) -> bytes:
        """At most `size` bytes of the stream; none where more of the file must be read first."""
        decoder = self._decoder
        assert decoder is not None
        data = b""
        if decoder.needs_input:
            if not self._rest and not self._read_more():
                problem = f"{self._label} is truncated: it ends inside {self._place()}"
                raise BrokenInputError(problem, _AGAIN)
            data, self._rest = self._rest, b""

        try:
            decoded = decoder.decompress(data, size)
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
            raise self._decoding_error(error) from error
        except MemoryError as error:
            problem = f"needs more memory to be decompressed than there is, in {self._place()}"
            raise _too_large(self._label, self._format.suffix, problem) from error
        if decoder.eof:
            self._rest = decoder.unused_data
            self._decoder = None
        return decoded

    def _read_more(self) -> bool:
        data = self._raw.read(_INPUT_BYTES)
        self._rest += data
        self._bytes_read += len(data)
        return bool(data)

    def _place(self) -> str:
        return f"stream {self._number}, which begins at byte {self._begin:,}"

    def _no_stream(self, place: int) -> BrokenInputError:
        suffix = self._format.suffix
        if self._number == 0:
            return BrokenInputError(f"{self._label} is no {suffix} file: it does not begin like one", _AGAIN)
        problem = f"{self._label} has bytes after stream {self._number}, at byte {place:,}, that are no {suffix} stream"
        return BrokenInputError(problem, f"remove them, or {_AGAIN}")

    def _decoding_error(self, error: Exception) -> BrokenInputError:
        if isinstance(error, lzma.LZMAError) and "Memory usage limit" in str(error):
            problem = f"asks for more than {_XZ_MEMORY >> 20} MiB of memory in {self._place()}"
            return _too_large(self._label, self._format.suffix, problem)
        return BrokenInputError(f"{self._label} is damaged in {self._place()} ({error})", _AGAIN)


class _ZstandardReader(_Reader):
    """Decodes the frames of a Zstandard file with pyarrow, which comes with `datasets`.

    The standard library reads Zstandard from Python 3.14 on.
    """

    def __init__(self, raw: BinaryIO, label: str) -> None:
        import pyarrow

        self._label = label
        self._frames = _Frames(raw, label)
        self._stream = pyarrow.CompressedInputStream(self._frames, "zstd")

    def _read_into(self, buffer: Any) -> int:
        place = self._frames.place
        try:
            return int(self._stream.readinto(buffer))
        except OSError as error:
            if error.errno is not None:
                raise
            problem = f"{self._label} is damaged in {place()} ({error})"
            raise BrokenInputError(problem, _AGAIN) from error
        except MemoryError as error:
            problem = f"needs more memory to be decompressed than there is, in {place()}"
            raise _too_large(self._label, ".zst", problem) from error


class _Frames(io.RawIOBase):
    """The bytes of a Zstandard file, of no more than one frame at each read, with its place.

    Source of the format: RFC 8878, section 3.1.
    """

    _MAGIC = b"\x28\xb5\x2f\xfd"
    _RLE_BLOCK = 1
    _RESERVED_BLOCK = 3

    def __init__(self, raw: BinaryIO, label: str) -> None:
        self._raw = raw
        self._label = label
        self._number = 0  # of the frame, from 1
        self._begin = 0  # byte at which it begins
        self._bytes_read = 0
        self._pieces = self._read_frames()
        self._piece = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = piece
        size = min(len(buffer), len(self._piece))
        buffer[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        return size

    def place(self) -> str:
        """The frame that was read last, in words."""
        return f"frame {self._number}, which begins at byte {self._begin:,}"

    def _read_frames(self) -> Iterator[bytes]:
        while True:
            begin = self._bytes_read
            magic = self._read(4)
            if not magic:
                return
            is_skippable = magic[1:] == b"\x2a\x4d\x18" and magic[0] >> 4 == 5
            if magic != self._MAGIC[: len(magic)] and not is_skippable:
                raise self._no_frame(begin)
            self._number += 1
            self._begin = begin
            if len(magic) < 4:
                raise self._truncated()
            yield magic
            yield from self._read_skippable() if is_skippable else self._read_frame()

    def _read_skippable(self) -> Iterator[bytes]:
        header = self._read_exactly(4)
        yield header
        remaining = int.from_bytes(header, "little")
        while remaining:
            piece = self._read_exactly(min(remaining, _INPUT_BYTES))
            remaining -= len(piece)
            yield piece

    def _read_frame(self) -> Iterator[bytes]:
        descriptor = self._read_exactly(1)
        yield descriptor
        has_checksum = bool(descriptor[0] & 4)
        yield self._read_header(descriptor[0])

        is_last = False
        while not is_last:
            header = self._read_exactly(3)
            fields = int.from_bytes(header, "little")
            is_last = bool(fields & 1)
            block_type = fields >> 1 & 3
            size = 1 if block_type == self._RLE_BLOCK else fields >> 3
            if block_type == self._RESERVED_BLOCK:
                problem = f"{self._label} is damaged in {self.place()} (a block of unknown type)"
                raise BrokenInputError(problem, _AGAIN)
            yield header
            yield self._read_exactly(size)
        if has_checksum:
            yield self._read_exactly(4)

    def _read_header(self, descriptor: int) -> bytes:
        """The rest of a frame's header; a BrokenInputError where its window is too large to be read."""
        is_single_segment = bool(descriptor & 0x20)
        dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
        size_bytes = (int(is_single_segment), 2, 4, 8)[descriptor >> 6]

        window = b"" if is_single_segment else self._read_exactly(1)
        dictionary = self._read_exactly(dictionary_bytes)
        content_size = self._read_exactly(size_bytes)
        if is_single_segment:
            window_bytes = int.from_bytes(content_size, "little")
        else:
            base = 1 << (10 + (window[0] >> 3))
            window_bytes = base + base // 8 * (window[0] & 7)
        if window_bytes > _ZSTD_WINDOW:
            problem = (
                f"asks for a window of {window_bytes >> 20:,} MiB in {self.place()},"
                f" and {_ZSTD_WINDOW >> 20} MiB are the most that is read"
            )
            raise _too_large(self._label, ".zst", problem)
        return window + dictionary + content_size

    def _read(self, size: int) -> bytes:
        """So many bytes, fewer only at the end of the file."""
        data = self._raw.read(size)
        while 0 < len(data) < size:
            more = self._raw.read(size - len(data))
            if not more:
                break
            data += more
        self._bytes_read += len(data)
        return data

    def _read_exactly(self, size: int) -> bytes:
        data = self._read(size)
        if len(data) < size:
            raise self._truncated()
        return data

    def _truncated(self) -> BrokenInputError:
        problem = f"{self._label} is truncated: it ends inside {self.place()}"
        return BrokenInputError(problem, _AGAIN)

    def _no_frame(self, begin: int) -> BrokenInputError:
        if self._number == 0:
            return BrokenInputError(f"{self._label} is no .zst file: it does not begin like one", _AGAIN)
        problem = f"{self._label} has bytes after frame {self._number}, at byte {begin:,}, that are no .zst frame"
        return BrokenInputError(problem, f"remove them, or {_AGAIN}")
