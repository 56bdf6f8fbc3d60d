"""The lines of a file or a pipe, as they come and in bounded memory."""

import select
import sys
from collections.abc import Iterator
from typing import BinaryIO, Protocol, cast

from tfcli.errors import BrokenInputError

LONGEST = 1 << 20
"""Bytes of a line. A million is a novel; without a limit, a pipe without line ends would fill the memory."""
_CHUNK = 1 << 16


class _Stream(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def lines_as_they_come(stream: BinaryIO, where: str) -> Iterator[tuple[str, str] | None]:
    """Each line without its end, behind its place, such as "line 7 on stdin"; blank ones are passed over.

    None comes wherever the next line has to be waited for, so that what came before can be dealt with.

    Args:
        where: follows the number of a line: "on stdin", "of prompts.txt".

    Raises:
        BrokenInputError: a line is not valid UTF-8, or longer than `LONGEST` bytes.
    """
    rest, number = b"", 0
    while chunk := cast(_Stream, stream).read1(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield from _line(line, number, where)
        if len(rest) > LONGEST:
            break
        if not _has_more(stream):
            yield None
    yield from _line(rest, number + 1, where)


def decoded(data: bytes, where: str) -> str:
    """The text that bytes spell in UTF-8.

    Raises:
        BrokenInputError: they are not valid; names the first byte that is wrong.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenInputError(
            f"{capitalized(where)} is not valid UTF-8 (byte {error.start} is 0x{data[error.start]:02x})",
            "convert it to UTF-8",
        ) from error


def capitalized(text: str) -> str:
    """With its first letter large, the others as they are."""
    return text[:1].upper() + text[1:]


def _line(line: bytes, number: int, where: str) -> Iterator[tuple[str, str]]:
    place = f"line {number} {where}"
    if len(line) > LONGEST:
        raise BrokenInputError(f"{capitalized(place)} is longer than {LONGEST:,} bytes", "break it into lines")
    text = decoded(line, place).rstrip("\r\n")
    if number == 1:
        text = text.removeprefix("\ufeff")  # some editors mark UTF-8 with it
    if text.strip():
        yield place, text


def _has_more(stream: BinaryIO) -> bool:
    """Whether reading on would not wait. What is no file of the system, such as a test's, never does; of a pipe of
    Windows nothing is known, and each piece is answered as it comes."""
    if sys.platform == "win32":
        return False
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return True
