"""Texts and prompts: from arguments, from standard input or from a file, one or in batches."""

import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from tfcli.console.terminal import Terminal
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.outputs import about, reading

LONGEST = 1 << 20  # bytes of a line: a novel. Without a limit, a pipe without line ends would fill the memory
_LARGEST = 64 << 20  # bytes of one text. Without a limit, a pipe that never ends would fill the memory
_CHUNK = 1 << 16

Line = tuple[str, str]  # a text behind its place, such as "line 7 of prompts.txt"; the place of an argument is empty
Require = Callable[[str], None]  # raises what is wrong with a prompt


def lines_as_they_come(stream: Any, where: str) -> Iterator[Line | None]:
    """Each line of a stream of bytes (with `read1`) without its end, behind its place, as "line 7 of prompts.txt", of
    which `where` is the end; blank ones are passed over. None comes wherever the next line has to be waited for. A
    BrokenInputError tells of a line that is not valid UTF-8, or longer than `LONGEST` bytes."""
    rest, number = b"", 0
    while chunk := stream.read1(_CHUNK):
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
    """The text that bytes spell in UTF-8; a BrokenInputError names the first byte that is wrong."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        from tfcli.corpora.reading import wide_encoding

        encoding = wide_encoding(data)
        if encoding is not None:
            problem = f"{capitalized(where)} is {encoding}, and text is read in UTF-8"
            raise BrokenInputError(problem, f"convert it with `iconv -f {encoding} -t UTF-8`") from error
        problem = f"{capitalized(where)} is not valid UTF-8 (byte {error.start} is 0x{data[error.start]:02x})"
        raise BrokenInputError(problem, "convert it to UTF-8") from error


def capitalized(text: str) -> str:
    """With its first letter large, the others as they are."""
    return text[:1].upper() + text[1:]


def _line(line: bytes, number: int, where: str) -> Iterator[Line]:
    place = f"line {number} {where}"
    if len(line) > LONGEST:
        raise BrokenInputError(f"{capitalized(place)} is longer than {LONGEST:,} bytes", "break it into lines")
    text = decoded(line, place).rstrip("\r\n")
    if number == 1:
        text = text.removeprefix("\ufeff")  # some editors mark UTF-8 with it
    if text.strip():
        yield place, text


def _has_more(stream: BinaryIO) -> bool:
    """Whether reading on would not wait."""
    if sys.platform == "win32":  # it is not known, and each piece is answered as it comes
        return False
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # no file of the system
        return True


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
    yield from (line[1] for line in lines_as_they_come(_stdin(), "on stdin") if line)


_taken: list[Any] = []  # the stdin that was read to its end


def _whole(what: str) -> str:
    data = _stdin(whole=True).read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise BrokenInputError(f"The {what} on stdin is longer than {_LARGEST:,} bytes", "give it in parts")
    return decoded(data, f"the {what} on stdin")


def _stdin(*, whole: bool = False) -> BinaryIO:
    """What is piped or typed into the command; a UsageError where the `whole` was read before, or the caller has closed
    it (`<&-`), for which `main` puts an empty file."""
    if sys.stdin.name == os.devnull:
        raise UsageError("There is nothing to read: stdin is closed", "pipe a text into it, or give one as an argument")
    if whole and _taken == [sys.stdin]:
        raise UsageError("Stdin can be read once, and - stands twice", "give the other text as an argument")
    _taken[:] = [sys.stdin] * whole
    return sys.stdin.buffer


def argument_batches(prompts: Sequence[str], require: Require, size: int) -> Iterator[list[str]]:
    """Batches of the command line's prompts, with `-` for the lines of stdin. A UsageError comes before the first, a
    BrokenInputError of a line of stdin behind the batches before it."""
    for prompt in prompts:
        if prompt != "-":
            require(prompt)
    stdin = _checked(lines_as_they_come(sys.stdin.buffer, "on stdin"), require, BrokenInputError)
    yield from _batches(chain.from_iterable(stdin if one == "-" else [("", one)] for one in prompts), size)


def file_batches(file: Path, require: Require, size: int) -> Iterator[list[str]]:
    """Batches of the lines of a file, or of the "prompt" of every line of a .jsonl file. A file is looked through
    before the first batch, for a UsageError, and read again; a pipe is read once, as stdin is."""
    if file.is_dir():
        raise UsageError(f"--prompts {file} is a folder", "name a file with a prompt a line")
    if not file.is_file():
        yield from _batches(_checked(_of_file(file), require, BrokenInputError), size)
        return
    if not sum(map(bool, _checked(_of_file(file), require, UsageError))):
        raise UsageError(f"{file} holds no prompt", "write a prompt a line")
    yield from _batches(_of_file(file), size)


def asked_batches(terminal: Terminal) -> Iterator[list[str]]:
    """Prompts that are asked for, one by one, until an empty line or the end of stdin; of what is no text, that is
    said. A BrokenInputError where one is longer than anybody types."""
    while True:
        terminal.err.print("> ", end="", markup=False, highlight=False)
        line = _stdin().readline(LONGEST + 1)
        if len(line) > LONGEST:
            raise BrokenInputError(f"The prompt on stdin is longer than {LONGEST:,} bytes", "break it into lines")
        try:
            if not (prompt := decoded(line, "the prompt on stdin").rstrip("\r\n")):
                return
            yield [prompt]
        except BrokenInputError as error:
            terminal.error(str(error))


def texts_and_lines(values: Sequence[str], option: str, require: Require) -> None:
    """Hand each text that an option gives to `require`: a value itself, or the lines of the file that it names, or of
    stdin (`-`). A UsageError where such a file is not there, a folder or empty, or a text does not fit."""
    for value in values:
        if os.path.isdir(value):  # noqa: PTH112 (of any text)
            raise UsageError(f"{option} {value} is a folder", "name a file with a text a line")
        is_file = os.path.isfile(value) or _names_file(value)  # noqa: PTH113 (of any text)
        stdin = lines_as_they_come(_stdin(whole=True), "on stdin") if value == "-" else None
        lines = stdin or (_of_file(Path(value)) if is_file else iter([(option, value)]))
        if not sum(map(bool, _checked(lines, require, UsageError))):
            raise UsageError(f"{value} holds no text", "write a text a line")


def _names_file(value: str) -> bool:
    """Whether a text ends like the name of a file of texts, compressed or not."""
    from tfcli.corpora.reading import name_parts

    return "\0" not in value and name_parts(Path(value))[0] in (".txt", ".jsonl")


def _of_file(file: Path) -> Iterator[Line | None]:
    """The lines of a file, or the prompts of a `.jsonl` file, read as `tfcli train` reads a file of text.

    It may be compressed. A pipe is read as it comes, like standard input.
    """
    from tfcli.corpora.reading import name_parts

    is_pipe = file.exists() and not file.is_file()
    lines = _of_pipe(file) if is_pipe else _of_stored_file(file)
    is_records = name_parts(file)[0] == ".jsonl"
    for line in lines:
        yield _of_record(*line) if line and is_records else line


def _of_stored_file(path: Path) -> Iterator[Line | None]:
    from tfcli.corpora import reading as corpus

    if not path.exists():
        raise UsageError(f"There is no file {str(path)!r}", "check the path")
    file = corpus.stored_file(path)
    corpus.require_readable(file)
    for number, line in enumerate(corpus.read_lines(file, _refuse), 1):
        place = f"line {number} of {path}"
        if len(line) > LONGEST:
            problem = f"{capitalized(place)} is longer than {LONGEST:,} characters"
            raise BrokenInputError(problem, "break it into lines")
        text = line.rstrip("\r\n")
        if text.strip():
            yield place, text


def _of_pipe(path: Path) -> Iterator[Line | None]:
    reading(path)
    try:
        pipe = path.open("rb")
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}", "check its permissions") from error
    with pipe:
        yield from lines_as_they_come(pipe, f"of {path}")


def _refuse(error: BrokenInputError) -> None:
    raise error


def _of_record(place: str, line: str) -> Line:
    """The prompt of a line of JSON."""
    problem = "is not valid JSON"
    try:
        record = json.loads(line)
        problem = 'has no text under "prompt"'
        if isinstance(prompt := record["prompt"], str):
            return place, prompt
    except (ValueError, RecursionError, LookupError, TypeError):
        pass
    raise BrokenInputError(f"{capitalized(place)} {problem}", 'write {"prompt": "…"} a line')


def _checked(lines: Iterable[Line | None], require: Require, kind: type[TfcliError]) -> Iterator[Line | None]:
    """The same, up to one that does not fit; that is told with its place."""
    for line in lines:
        place, text = line or ("", "")
        try:
            if line:
                require(text)
        except TfcliError as error:
            problem = f"{capitalized(place)}: {error.problem[:1].lower()}{error.problem[1:]}"
            raise (BrokenInputError if isinstance(error, BrokenInputError) else kind)(problem, error.remedy) from error
        yield line


def _batches(lines: Iterable[Line | None], size: int) -> Iterator[list[str]]:
    """As many as are there, `size` at most. What came before a bad line is handed on before the line is told."""
    batch: list[str] = []
    try:
        for line in lines:
            if line:
                batch.append(line[1])
            if batch and (line is None or len(batch) == size):
                yield batch
                batch = []
    except TfcliError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
