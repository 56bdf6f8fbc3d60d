"""Texts from arguments or from stdin."""

import sys
from collections.abc import Iterator

from tfcli.errors import BrokenInputError


def read_arguments(values: list[str] | None, what: str) -> list[str]:
    """The arguments, with `-` (or no argument at all) replaced by the whole of stdin."""
    return [_whole(what) if value == "-" else value for value in values or ["-"]]


def read_text(value: str) -> str:
    """The argument; of `-`, the whole of stdin without the one newline that ends it."""
    return _whole("text").removesuffix("\n").removesuffix("\r") if value == "-" else value


def read_lines() -> Iterator[str]:
    """The lines of stdin, as they come, without their ends; empty lines are passed over."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        text = _decoded(line, f"line {number}").rstrip("\r\n")
        if text.strip():
            yield text


def keep_bad_bytes() -> None:
    """Let a line with invalid UTF-8 be read, for `as_typed` to refuse. Before anything has been read."""
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]


def as_typed(line: str) -> str:
    """A line that was asked for.

    Raises:
        BrokenInputError: it is not valid UTF-8.
    """
    return _decoded(line.encode("utf-8", "surrogateescape"), "the prompt")


def _whole(what: str) -> str:
    return _decoded(sys.stdin.buffer.read(), f"the {what}")


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenInputError(
            f"{where} on stdin is not valid UTF-8 (byte {error.start} is 0x{data[error.start]:02x})",
            "convert it to UTF-8",
        ) from error
