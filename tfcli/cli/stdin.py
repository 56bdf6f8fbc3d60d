"""Texts from arguments or from stdin."""

import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

from tfcli.cli.lines import LONGEST, decoded, lines_as_they_come
from tfcli.errors import BrokenInputError, UsageError
from tfcli.outputs import about

_LARGEST = 64 << 20
"""Bytes of one text. Without a limit, a pipe that never ends would fill the memory."""


def read_arguments(values: list[str] | None, what: str) -> list[str]:
    """The arguments, with `-` (or no argument at all) replaced by the whole of stdin."""
    return [_whole(what) if value == "-" else value for value in values or ["-"]]


def read_text(value: str) -> str:
    """The argument; of `-`, the whole of stdin without the one newline that ends it."""
    if value != "-":
        return value
    about["text"] = _whole("text").removesuffix("\n").removesuffix("\r")
    return about["text"]


def read_lines() -> Iterator[str]:
    """The lines of stdin, as they come, without their ends; empty lines are passed over."""
    for line in lines_as_they_come(_stdin(), "on stdin"):
        if line is not None:
            yield line[1]


def read_typed() -> bytes:
    """One line of a conversation, for `decoded`; empty at the end of stdin.

    Raises:
        BrokenInputError: it is too long to have been typed.
    """
    line = _stdin().readline(LONGEST + 1)
    if len(line) > LONGEST:
        raise BrokenInputError(f"The prompt on stdin is longer than {LONGEST:,} bytes", "break it into lines")
    return line


def _whole(what: str) -> str:
    data = _stdin().read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise BrokenInputError(f"The {what} on stdin is longer than {_LARGEST:,} bytes", "give it in parts")
    return decoded(data, f"the {what} on stdin")


def _stdin() -> BinaryIO:
    """What is piped or typed into the command.

    Raises:
        UsageError: the caller has closed it (`<&-`), for which `main` puts an empty file in its place.
    """
    if sys.stdin.name == os.devnull:
        raise UsageError("There is nothing to read: stdin is closed", "pipe a text into it, or give one as an argument")
    return sys.stdin.buffer
