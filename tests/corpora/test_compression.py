"""Compressed files of several streams: each byte belongs to a stream or to padding, or the place is named."""

import bz2
import gzip
import io
import lzma
import os
import zlib

import pyarrow as pa
import pytest

import tfcli.corpora.compression
from tests.corpora.helpers import read, refusal
from tfcli.corpora.compression import decompressed
from tfcli.errors import BrokenInputError


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
UNIT = {".gz": "stream", ".bz2": "stream", ".xz": "stream", ".zst": "frame"}
FIRST = "".join(f"line {number} of the first part\n" for number in range(500))
SECOND = "".join(f"line {number} of the second part\n" for number in range(500))

every = pytest.mark.parametrize("suffix", COMPRESS)


def parts(suffix: str) -> tuple[bytes, bytes]:
    compress = COMPRESS[suffix]
    return compress(FIRST.encode()), compress(SECOND.encode())


def written(tmp_path, suffix, content):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(content)
    return path


@every
def test_several_streams_and_empty_ones_are_one_text(tmp_path, suffix):
    first, second = parts(suffix)
    empty = COMPRESS[suffix](b"")
    path = written(tmp_path, suffix, empty + first + empty + second + empty)
    assert read(path) == [FIRST + SECOND]


@every
def test_a_truncated_last_stream_is_refused_with_its_place(tmp_path, suffix):
    first, second = parts(suffix)
    for end in (1, 3, len(second) // 2, len(second) - 1):
        path = written(tmp_path, suffix, first + second[:end])
        expected = f"{path} is truncated: it ends inside {UNIT[suffix]} 2, which begins at byte {len(first):,};"
        assert expected in refusal(BrokenInputError, 1, path), end


@every
def test_a_damaged_second_stream_is_refused_with_its_place(tmp_path, suffix):
    """The readers of bz2 and lzma took it for the end of the file, and lost the half of the text."""
    first, second = parts(suffix)
    middle = len(second) // 2
    damaged = {".gz": second[:-8] + b"\0" * 8}.get(
        suffix, second[:middle] + bytes(255 - byte for byte in second[middle:])
    )
    path = written(tmp_path, suffix, first + damaged + first)
    expected = f"{path} is damaged in {UNIT[suffix]} 2, which begins at byte {len(first):,} ("
    assert expected in refusal(BrokenInputError, 1, path)


def test_damage_that_brings_nonsense_is_told_before_the_nonsense(tmp_path):
    """bzip2 decodes a block of 900 kB before it compares the checksum, which stands at byte 10 (4 + 6, BZh9 and pi)."""
    text = bytes(range(32, 127)) * 1000
    content = bytearray(bz2.compress(text[:5000] + b"\0" + text))
    content[10] ^= 1
    path = written(tmp_path, ".bz2", bytes(content))
    assert f"{path} is damaged in stream 1" in refusal(BrokenInputError, 1, path)
    path = written(tmp_path, ".bz2", bz2.compress(text[:5000] + b"\0" + text))
    assert "is binary, not text: byte 5000 is 0" in refusal(BrokenInputError, 1, path)


@every
def test_what_is_no_stream_is_refused_with_its_place(tmp_path, suffix):
    first, second = parts(suffix)
    for more in (b"something else", b"\x01" + second, second[2:]):
        path = written(tmp_path, suffix, first + second + more)
        place = len(first) + len(second)
        expected = (
            f"{path} has bytes after {UNIT[suffix]} 2, at byte {place:,}, that are no {suffix}"
            f" {UNIT[suffix]}; remove them, or"
        )
        assert expected in refusal(BrokenInputError, 1, path)


@pytest.mark.parametrize(("suffix", "zeros"), [(".gz", 1), (".gz", 512), (".gz", 70_000), (".xz", 4), (".xz", 140_000)])
def test_valid_padding_is_passed_over(tmp_path, suffix, zeros):
    first, second = parts(suffix)
    padding = bytes(zeros)
    path = written(tmp_path, suffix, first + padding + second + padding)
    assert read(path) == [FIRST + SECOND]


@pytest.mark.parametrize("zeros", [1, 3, 6, 70_001])
def test_xz_is_padded_in_multiples_of_four(tmp_path, zeros):
    first, second = parts(".xz")
    for rest in (b"", second):
        path = written(tmp_path, ".xz", first + bytes(zeros) + rest)
        expected = f"has {zeros} zero bytes after stream 1, at byte {len(first):,}, where padding"
        assert expected in refusal(BrokenInputError, 1, path)


@pytest.mark.parametrize("suffix", [".bz2", ".zst"])
def test_bzip2_and_zstandard_have_no_padding(tmp_path, suffix):
    first, _ = parts(suffix)
    path = written(tmp_path, suffix, first + bytes(4))
    assert f"has bytes after {UNIT[suffix]} 1" in refusal(BrokenInputError, 1, path)


@every
def test_a_file_without_a_byte_is_empty(tmp_path, suffix):
    assert decompressed(io.BytesIO(b""), suffix, "a").read() == b""


def test_skippable_frames_of_zstandard_are_passed_over(tmp_path):
    """RFC 8878, section 3.1.2: as pzstd writes them before every frame."""
    first, second = parts(".zst")
    skippable = b"\x5d\x2a\x4d\x18" + (70_000).to_bytes(4, "little") + os.urandom(70_000)
    path = written(tmp_path, ".zst", skippable + first + skippable + second)
    assert read(path) == [FIRST + SECOND]
    path = written(tmp_path, ".zst", skippable + first + skippable[:-1])
    begin = len(skippable) + len(first)
    assert f"it ends inside frame 3, which begins at byte {begin:,}" in refusal(BrokenInputError, 1, path)


class ShortReads(io.BytesIO):
    """A stream that gives one byte at a time, as a connection may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(1, -1 if size is None else size))


@every
def test_a_stream_that_gives_little_at_a_time_is_the_same(suffix):
    first, second = parts(suffix)
    stream = decompressed(ShortReads(first + second), suffix, "a")
    assert stream.read().decode() == FIRST + SECOND


@every
def test_data_that_cannot_be_compressed_comes_back(suffix):
    data = os.urandom(300_000)
    content = COMPRESS[suffix](data) + COMPRESS[suffix](data[::-1])
    assert decompressed(io.BytesIO(content), suffix, "a").read() == data + data[::-1]


def with_dictionary_size(content: bytes, code: int) -> bytes:
    """An xz file whose first block asks for another dictionary (the xz file format, section 5.3.1)."""
    data = bytearray(content)
    begin = 12
    end = begin + (data[begin] + 1) * 4
    assert data[begin + 2 : begin + 4] == b"\x21\x01"
    data[begin + 4] = code
    data[end - 4 : end] = zlib.crc32(data[begin : end - 4]).to_bytes(4, "little")
    return bytes(data)


def test_an_xz_file_that_asks_for_4_gib_is_refused_with_advice_about_the_file(tmp_path):
    content = lzma.compress(FIRST.encode())
    assert read(written(tmp_path, ".xz", with_dictionary_size(content, 28))) == [FIRST]  # 64 MiB: xz -9
    path = written(tmp_path, ".xz", with_dictionary_size(content, 40))
    sentence = refusal(BrokenInputError, 1, path)
    assert f"{path} asks for more than 512 MiB of memory in stream 1" in sentence
    assert f"compress it again: `xz -dc {path} | xz -6 > NEW.txt.xz`." in sentence


def with_window(content: bytes, window: int) -> bytes:
    """A Zstandard frame whose header names a window of 2^window bytes (RFC 8878, section 3.1.1.1)."""
    return content[:4] + b"\0" + bytes([(window - 10) << 3]) + content[6:]


def test_a_zstandard_file_with_a_large_window_is_refused_with_advice_about_the_file(tmp_path):
    content = zstd(FIRST.encode())
    assert content[4] == 0, "no checksum, no content size, a window of its own"
    assert read(written(tmp_path, ".zst", with_window(content, 27))) == [FIRST]
    path = written(tmp_path, ".zst", with_window(content, 31))
    sentence = refusal(BrokenInputError, 1, path)
    assert f"{path} asks for a window of 2,048 MiB in frame 1" in sentence
    assert f"`zstd -dc --long=31 {path} | zstd > NEW.txt.zst`." in sentence


def test_a_file_for_which_there_is_no_memory_is_refused_with_advice_about_the_file(tmp_path, monkeypatch):
    class Exhausted:
        needs_input, eof, unused_data = True, False, b""

        def decompress(self, *_: object) -> bytes:
            raise MemoryError

    kind = tfcli.corpora.compression._FORMATS[".xz"]
    monkeypatch.setitem(tfcli.corpora.compression._FORMATS, ".xz", type(kind)(kind.suffix, kind.magic, 4, Exhausted))
    path = written(tmp_path, ".xz", parts(".xz")[0])
    assert f"{path} needs more memory to be decompressed than there is" in refusal(BrokenInputError, 1, path)
