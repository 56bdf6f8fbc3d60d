"""The `tokenizers` library: its tokenizer read from a serialised state, and its panics turned into sentences."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from tokenizers import Tokenizer as Backend

from tfcli import files
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.tokenization.checks import doubts, require_sound
from tfcli.tokenization.trial import try_out

_LARGEST = 1 << 28
"""Bytes. A vocabulary of 256,000 pieces takes 40 million."""
_LONGEST_REASON = 160
_TRIAL = "A trial,\n1\ue000 é"
"""Words, a line end, and a character (of the private use area) that no vocabulary is likely to hold."""
_silence = RLock()
"""Of two threads, the second would keep the silence of the first for good."""


def read_backend(file: Path) -> Backend:
    """Read a tokenizer.json.

    Raises:
        UsageError: it is not there, or another kind of file.
        BrokenInputError: it is damaged.
    """
    if file.is_file():
        files.require_size(file, _LARGEST)
    state = files.read_json(file)
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise UsageError(f"{file} is JSON but no tokenizer", "name a file made by 'tfcli tokenize train'")
    state |= {"truncation": None, "padding": None}  # tfcli does both itself
    with library_refusals(file):
        require_sound(state)
        if doubtful := doubts(state):
            try_out(state, doubtful)
        return tried(Backend.from_str(json.dumps(state)))


def copied(serialised: str) -> Backend:
    """Another backend like one that has been read, from what it says of itself."""
    return Backend.from_str(serialised)


def tried(backend: Backend) -> Backend:
    """The backend, after it has encoded texts: a missing unknown token and the like come to light here.

    Raises:
        ValueError: it makes nothing of any text.
    """
    if not backend.get_vocab_size(with_added_tokens=False):
        raise ValueError("its vocabulary is empty")
    for text in ("", _TRIAL):
        backend.encode(text, add_special_tokens=True)
    return backend


@contextmanager
def library_refusals(file: Path) -> Iterator[None]:
    """Turn whatever the library raises over a file into one sentence.

    Raises:
        BrokenInputError: naming the file.
    """
    try:
        with no_native_stderr():
            yield
    except BaseException as error:  # a panic of the library's Rust code is no Exception
        if isinstance(error, TfcliError | KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        raise BrokenInputError(
            f"{file} is no tokenizer that can be read ({reason(error)})", "restore the file or train it again"
        ) from error


def reason(error: BaseException) -> str:
    """What the library says, in one line of a length that a sentence can hold."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= _LONGEST_REASON else f"{message[:_LONGEST_REASON]}…"


def is_panic(error: BaseException) -> bool:
    """Whether the library's Rust code gave up; no module has the class of such errors."""
    return type(error).__name__ == "PanicException"


@contextmanager
def no_native_stderr() -> Iterator[None]:
    """Keep a panic's own report, which goes to file descriptor 2, off the terminal: the error says it."""
    with _silence:
        try:
            kept = os.dup(2)
        except OSError:  # there is none
            yield
            return
        silent = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(silent, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(silent)
