"""Commands as a user types them, run in this process or in one of their own."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from typer.testing import CliRunner, Result

from tests.support.app import app

# Whatever terminal the tests run in, commands see one of 80 columns without colour.
PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "FORCE_COLOR": None, "PY_COLORS": None}

# Behind `train`, `run` and `bench train`, these make any training take a second.
SHRUNK = [
    *("--set", "train.steps=3", "--set", "train.batch_size=4", "--set", "data.max_documents=300"),
    *("--set", "model.d_model=32", "--set", "model.num_layers=2", "--set", "model.num_heads=2"),
]


def tfcli(*arguments: str | Path, stdin: str | bytes = "") -> Result:
    """Run a command in this process; the result has stdout, stderr and exit_code."""
    return CliRunner(env=PLAIN).invoke(app, [str(argument) for argument in arguments], input=stdin)


def hears_signals() -> None:
    """Called in a process that is to be sent signals, before it begins: what ignores them, a shell's `&` SIGINT and
    nohup SIGHUP, is inherited, by the tests too."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def process(*arguments: str | Path, **environment: str) -> "subprocess.Popen[str]":
    """Start a command in a process of its own, for signals and closed pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "tfcli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=hears_signals,
    )


def shell(line: str) -> list[Result]:
    """Run a line of the shell's language as far as examples use it: `tfcli a | tfcli b`, `> file`, `< file`.

    What is not tfcli is done by bash. Trainings are shrunk.
    """
    if not line.startswith("tfcli "):
        subprocess.run(["bash", "-c", line], check=True)
        return []
    results: list[Result] = []
    for part in _pipeline(line):
        words, read, written = _redirected(part)
        stdin: str | bytes = results[-1].stdout_bytes if results else ""
        if read:
            stdin = Path(read).read_bytes()
        results.append(tfcli(*_shrunk(words[1:]), stdin=stdin))
        if written:
            Path(written).parent.mkdir(parents=True, exist_ok=True)
            Path(written).write_bytes(results[-1].stdout_bytes)
    return results


def _pipeline(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    part: list[str] = []
    for word in lexer:
        if word == "|":
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _redirected(words: Sequence[str]) -> tuple[list[str], str | None, str | None]:
    kept, files = [">" if word == ">>" else word for word in words], {"<": None, ">": None}
    for sign in files:
        if sign in kept:
            place = kept.index(sign)
            files[sign] = kept[place + 1].removeprefix("~/")
            del kept[place : place + 2]
    return kept, files["<"], files[">"]


def _shrunk(words: list[str]) -> list[str]:
    if "--resume" in words:  # of a tiny run, which has done 80 steps
        return ["83" if before == "--steps" else word for before, word in pairwise(["", *words])]
    if (words[0] in ("train", "run") or words[:2] == ["bench", "train"]) and "--dry-run" not in words:
        return [*(words if words[0] == "bench" else _without_length(words)), *SHRUNK]
    if words[0] == "prepare" and "--merge" not in words:
        return [*words, "--set", "data.max_documents=300"]
    return words


def _without_length(words: list[str]) -> Iterator[str]:
    """An example's own steps would contradict the few that it is shrunk to."""
    pairs = zip(words, [*words[1:], ""], strict=True)
    for word, following in pairs:
        if word in ("--steps", "--epochs") or (word == "--set" and following.startswith("train.steps=")):
            next(pairs)
        else:
            yield word


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes; a link counts as what it is."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"(folder)"
        for path in sorted(folder.rglob("*"))
    }
