"""The prompts of a command in batches: from its arguments, from stdin, from a file, or asked for."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfcli.cli.lines import capitalized, decoded, lines_as_they_come
from tfcli.cli.stdin import read_typed
from tfcli.cli.terminal import Terminal
from tfcli.errors import BrokenInputError, TfcliError, UsageError

Require = Callable[[str], None]
"""Raises what is wrong with a prompt."""


@dataclass(frozen=True)
class _Prompt:
    """A prompt and its place, such as "line 7 of prompts.txt"; empty for an argument."""

    text: str
    place: str = ""


def argument_batches(prompts: Sequence[str], require: Require, size: int) -> Iterator[list[str]]:
    """Batches of what is given on the command line; `-` stands for the lines of stdin.

    Raises:
        UsageError: before the first batch, where a prompt does not fit.
        BrokenInputError: behind the batches before it, where a line of stdin is no text or does not fit.
    """
    for prompt in prompts:
        if prompt != "-":
            require(prompt)
    yield from _batches(_of_arguments(prompts, require), size)


def file_batches(file: Path, require: Require, size: int) -> Iterator[list[str]]:
    """Batches of the lines of a file, or of the "prompt" of every line of a .jsonl file.

    A file is looked through before the first batch, and read again; a pipe is read once, as stdin is.

    Raises:
        UsageError: there is no such file, it holds no prompt, or one that does not fit.
        BrokenInputError: a line is no text, or no JSON with a prompt.
    """
    if file.is_dir():
        raise UsageError(f"--prompts {file} is a folder", "name a file with a prompt a line")
    if not file.is_file():
        yield from _batches(_checked(_of_file(file), require, BrokenInputError), size)
        return
    if not sum(prompt is not None for prompt in _checked(_of_file(file), require, UsageError)):
        raise UsageError(f"{file} holds no prompt", "write a prompt a line")
    yield from _batches(_of_file(file), size)


def asked_batches(terminal: Terminal) -> Iterator[list[str]]:
    """Prompts that are asked for, one by one, until an empty line or the end of stdin.

    Raises:
        BrokenInputError: one is longer than anybody types.
    """
    while True:
        terminal.err.print("> ", end="", markup=False, highlight=False)
        if not (line := read_typed()):
            return
        try:
            prompt = decoded(line, "the prompt on stdin").rstrip("\r\n")
        except BrokenInputError as error:
            terminal.error(str(error))
            continue
        if not prompt:
            return
        yield [prompt]


def _of_arguments(prompts: Sequence[str], require: Require) -> Iterator[_Prompt | None]:
    for prompt in prompts:
        if prompt == "-":
            lines = _of_lines(sys.stdin.buffer, "on stdin")
            yield from _checked(lines, require, BrokenInputError)
        else:
            yield _Prompt(prompt)


def _of_file(file: Path) -> Iterator[_Prompt | None]:
    try:
        opened = file.open("rb")
    except FileNotFoundError as error:
        raise UsageError(f"There is no file {str(file)!r}", "check the path that --prompts gives") from error
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}", "check its permissions") from error
    with opened:
        for prompt in _of_lines(opened, f"of {file}"):
            yield _of_record(prompt) if prompt and file.suffix == ".jsonl" else prompt


def _of_lines(stream: BinaryIO, where: str) -> Iterator[_Prompt | None]:
    for line in lines_as_they_come(stream, where):
        yield None if line is None else _Prompt(line[1], line[0])


def _of_record(line: _Prompt) -> _Prompt:
    """The prompt of a line of JSON.

    Raises:
        BrokenInputError: it is no JSON, or has no text of that name.
    """
    where = capitalized(line.place)
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise BrokenInputError(f"{where} is not valid JSON", 'write {"prompt": "…"} a line') from error
    if not isinstance(record, dict) or not isinstance(prompt := record.get("prompt"), str):
        raise BrokenInputError(f'{where} has no text under "prompt"', 'write {"prompt": "…"} a line')
    return _Prompt(prompt, line.place)


def _checked(prompts: Iterable[_Prompt | None], require: Require, kind: type[TfcliError]) -> Iterator[_Prompt | None]:
    """The same, up to one that does not fit; that is told with its place."""
    for prompt in prompts:
        if prompt is not None:
            try:
                require(prompt.text)
            except TfcliError as error:
                problem = error.problem[:1].lower() + error.problem[1:]
                broken = isinstance(error, BrokenInputError)
                raise (BrokenInputError if broken else kind)(
                    f"{capitalized(prompt.place)}: {problem}", error.remedy
                ) from error
        yield prompt


def _batches(prompts: Iterable[_Prompt | None], size: int) -> Iterator[list[str]]:
    """As many as are there, `size` at most. What came before a bad line is handed on before the line is told."""
    batch: list[str] = []
    try:
        for prompt in prompts:
            if prompt is not None:
                batch.append(prompt.text)
            if batch and (prompt is None or len(batch) == size):
                yield batch
                batch = []
    except TfcliError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
