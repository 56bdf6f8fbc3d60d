"""Hostile cases: a real command each, its exit code, its sentence, and what it must leave untouched.

    Case("an empty file of text", "train --data empty.txt", 2, r"empty\\.txt is empty; .*text", write("empty.txt", ""))

A case has a folder of its own. What its words name of the ingredients (`decoder`, `prepared`, `tokenizer.json`, …; see
conftest.py) lies there as a copy, its `arranged` steps have damaged it, and the command runs there as a process of its
own, for which a folder without permission is one even where the tests run as root. Of every case it is required that

- the exit code is the documented one and the sentence on stderr matches, and ends as a sentence does;
- nothing on stdout or stderr steers a terminal, is a traceback or calls itself a fault, and stderr is short;
- every file that was there is as it was, nothing is new but what the case names, and no temporary file is anywhere;
- no process is left.
"""

import contextlib
import ctypes
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.cli.commands import snapshot
from tfcli.draw.safe import UNSAFE

Step = Callable[[Path], object]
Stdin = bytes | Literal["closed"]
Stdout = Literal["read", "full", "closed", "left", "one line"]

PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
TINY = (
    "--set train.steps=2 --set train.batch_size=2 --set model.d_model=16 --set model.num_layers=1 --set "
    "model.num_heads=2 --set model.max_seq_len=16 --set train.warmup_steps=0 --set tokenizer.algorithm=char"
)
"""Behind `train`, `run` or `plan`: should it begin after all, it is over soon."""
LONGEST = 1500
"""Letters of stderr of which a user still reads each: a sentence, with a note or two before it."""
_MEMORY = 12 * 2**30
_DROP = 24
_MARKS: dict[int, str] = {}
"""What stands in the environment of each process that was started here, and of all that it starts."""
_OVERRIDES = (1, 2)
"""Of Linux: the capabilities with which root opens what is not open to it."""


@dataclass(frozen=True)
class Case:
    """What somebody did, the command, its exit code and what it must say on stderr (on success: `prints`, on stdout).

    Args:
        arranged: steps that write and damage files in the case's folder before.
        leaves: patterns of what may be new or other than before; all else must be as it was.
        raw: the text on stdout is the user's own, and goes there as it is.
        unlimited: the sentence holds the user's own paths, or the output is a report, of any length.
        sample: one of those that run without `-m slow`.
    """

    name: str
    command: str | Sequence[str]
    exit_code: int
    says: str
    arranged: tuple[Step, ...] = ()
    stdin: Stdin = b""
    stdout: Stdout = "read"
    prints: str = ""
    leaves: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    timeout: float = 60
    file_size: int | None = None
    raw: bool = False
    unlimited: bool = False
    sample: bool = False

    @property
    def words(self) -> list[str]:
        """The arguments behind `tfcli`."""
        return shlex.split(self.command) if isinstance(self.command, str) else list(self.command)


def case(name: str, command: str | Sequence[str], exit_code: int, says: str, *arranged: Step, **settings: Any) -> Case:
    """A case whose steps stand behind its sentence."""
    return Case(name, command, exit_code, says, arranged, **settings)


def every(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """Run a test for each case under its name."""
    names = [one.name for one in cases]
    assert len(set(names)) == len(names), "two cases have one name"
    return pytest.mark.parametrize(
        "hostile",
        [pytest.param(one, id=one.name, marks=pytest.mark.sample if one.sample else ()) for one in cases],
    )


@dataclass(frozen=True)
class Ended:
    """What a process has said, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float


@dataclass
class Place:
    """A folder for one case, with what its command runs with."""

    here: Path
    temporary: Path
    cache: Path
    ingredients: Callable[[str], Path]

    def bring(self, names: Sequence[str]) -> None:
        """Copy ingredients here."""
        for name in names:
            made = self.ingredients(name)
            copy = self.here / made.name
            if not copy.exists():
                (shutil.copytree if made.is_dir() else shutil.copy)(made, copy)

    def start(
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str | None] = {},
        file_size: int | None = None,
        before: Callable[[], object] = lambda: None,
        **pipes: Any,
    ) -> "subprocess.Popen[bytes]":
        """A process of tfcli in this folder, the first of a group of its own."""
        mark = f"HOSTILE={uuid.uuid4()}"
        settings = {**os.environ, **PLAIN, "TMPDIR": str(self.temporary), "HOSTILE": mark, **environment}
        for name in ("FORCE_COLOR", "PY_COLORS", "PYTEST_CURRENT_TEST"):
            settings.setdefault(name, None)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tfcli", *words],  # as people do
            cwd=self.here,
            env={name: value for name, value in settings.items() if value is not None},
            start_new_session=True,
            preexec_fn=lambda: (_ordinary(file_size), before()),
            **pipes,
        )
        _MARKS[process.pid] = mark
        return process


def _ordinary(file_size: int | None) -> None:
    """In the child: as a user's process, for whom locked folders are locked, and which cannot take the machine."""
    library = ctypes.CDLL(None)
    for capability in _OVERRIDES:
        library.prctl(_DROP, capability, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))


def left_processes(begun: int) -> dict[int, str]:
    """What still runs of a process and of all that it has started: command lines by their numbers."""
    left = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if _MARKS[begun].encode() in (folder / "environ").read_bytes():
                left[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return left


def require_nothing_runs(begun: int, seconds: float = 3) -> None:
    """Fail if what a process has started runs on; what is found is killed."""
    end = time.monotonic() + seconds
    while left := left_processes(begun):
        if time.monotonic() > end:
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            raise AssertionError(f"left running: {left}")
        time.sleep(0.05)


def run(place: Place, hostile: Case) -> Ended:
    """Run the command of a case to its end."""
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "stdin": subprocess.PIPE}
    closes = []
    given: bytes | None = None
    if hostile.stdin == "closed":
        pipes["stdin"] = None
        closes.append(0)
    else:
        given = hostile.stdin
    reader = None
    if hostile.stdout == "full":
        pipes["stdout"] = os.open("/dev/full", os.O_WRONLY)
    elif hostile.stdout == "closed":
        pipes["stdout"] = None
        closes.append(1)
    elif hostile.stdout in ("left", "one line"):
        reader, pipes["stdout"] = os.pipe()
        if hostile.stdout == "left":
            os.close(reader)
    began = time.monotonic()
    process = place.start(
        hostile.words,
        environment=hostile.environment,
        file_size=hostile.file_size,
        before=lambda: [os.close(number) for number in closes],
        **pipes,
    )
    if isinstance(pipes["stdout"], int) and pipes["stdout"] >= 0:
        os.close(pipes["stdout"])
    if hostile.stdout == "one line" and reader is not None:
        os.read(reader, 1)
        os.close(reader)
    try:
        out, err = process.communicate(given, timeout=hostile.timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"still running after {hostile.timeout} s; stderr: {err[-500:]!r}") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    seconds = time.monotonic() - began
    require_nothing_runs(process.pid)
    return Ended(process.returncode, (out or b"").decode("utf-8", "replace"), err.decode(), seconds)


def check(place: Place, hostile: Case) -> Ended:
    """Run a case, and require of it what its docstring and its fields promise."""
    words = {word.rstrip("/").split("/")[0] for given in hostile.words for word in re.split("[,=]", given)}
    place.bring([*(word for word in INGREDIENTS if word in words), *hostile.needs])
    for step in hostile.arranged:
        step(place.here)
    with opened(place.here):
        before = snapshot(place.here)
    ended = run(place, hostile)
    with opened(place.here):
        after = snapshot(place.here)
    said = f"exit {ended.exit_code}\nstdout: {ended.stdout[-1500:]}\nstderr: {ended.stderr[-3000:]}"
    assert ended.exit_code == hostile.exit_code, said
    assert re.search(hostile.says, ended.stderr, re.DOTALL), f"it does not say /{hostile.says}/\n{said}"
    assert re.search(hostile.prints, ended.stdout, re.DOTALL), f"it does not print /{hostile.prints}/\n{said}"
    require_plain(ended, hostile)
    require_untouched(before, after, hostile.leaves)
    require_no_leftovers(place)
    return ended


def require_plain(ended: Ended, hostile: Case) -> None:
    """Nothing steers the terminal, calls itself a fault or goes on for pages; an error is the last thing said."""
    for word in ("Traceback", "has a fault", "Exception ignored", "Error:", "panicked", "Warning"):
        assert word not in ended.stderr, ended.stderr[-3000:]
    assert not UNSAFE.search(ended.stderr), ascii(ended.stderr[-3000:])
    assert hostile.raw or not UNSAFE.search(ended.stdout), ascii(ended.stdout[-3000:])
    if ended.exit_code:
        last = ended.stderr.splitlines()[-1] if ended.stderr else ""
        assert last.startswith("tfcli: "), ended.stderr[-3000:]
        assert last.endswith("."), ended.stderr[-3000:]
        assert hostile.unlimited or len(ended.stderr) <= LONGEST, f"{len(ended.stderr)} letters: {ended.stderr[:3000]}"


def require_untouched(before: Mapping[str, bytes], after: Mapping[str, bytes], leaves: Sequence[str]) -> None:
    """Everything is as it was but what may be other."""
    other = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    touched = {name for name in other if not any(fnmatch(name, pattern) for pattern in leaves)}
    kinds = {name: "new" if name not in before else "gone" if name not in after else "changed" for name in touched}
    assert not touched, f"not as it was: {kinds}"
    hidden = [name for name in after.keys() - before.keys() if ".tmp" in name or Path(name).name.startswith(".")]
    assert not hidden, f"left half-written: {hidden}"


def require_no_leftovers(place: Place) -> None:
    """No temporary file in the cache or in the folder for temporary files."""
    left = [path for path in place.cache.rglob("*") if ".tmp" in path.name]
    for path in left:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not left, f"left in the cache: {left}"
    # PyTorch makes an empty folder for its compiler when it is imported.
    behind = [path for path in place.temporary.iterdir() if not path.name.startswith("torchinductor_")]
    assert not behind, f"left behind: {behind}"


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Locked folders and files opened for the time of a look, for those who run the tests as themselves."""
    if os.geteuid() == 0:
        yield
        return
    locked = {path: path.lstat().st_mode for path in folder.rglob("*") if not os.access(path, os.R_OK | os.X_OK)}
    for path, mode in locked.items():
        path.chmod(mode | 0o500)
    yield
    for path, mode in locked.items():
        path.chmod(mode)


INGREDIENTS = (
    "decoder",
    "encoder",
    "translator",
    "untied",
    "tokenizer.json",
    "other.json",
    "prepared",
    "pairs",
    "hf",
    "text.txt",
    "pairs.tsv",
    "prompts.txt",
)
"""What a case's command may name; conftest.py makes each when it is first wanted."""


# What arranges a case's folder.


def write(name: str, content: str | bytes | Any) -> Step:
    """A file with this content; what is neither text nor bytes is written as JSON."""

    def step(here: Path) -> None:
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return step


def edit(name: str, change: Callable[[Any], Any] | None = None, **values: Any) -> Step:
    """A JSON file with other values, or what `change` makes of it."""

    def step(here: Path) -> None:
        content = json.loads((here / name).read_text(encoding="utf-8"))
        if change is not None:
            changed = change(content)
            content = content if changed is None else changed
        content.update(values) if values else None
        (here / name).write_text(json.dumps(content), encoding="utf-8")

    return step


def replace(name: str, old: str, new: str) -> Step:
    """A text file in which one thing stands for another."""

    def step(here: Path) -> None:
        text = (here / name).read_text(encoding="utf-8")
        assert old in text, f"{old!r} is not in {name}"
        (here / name).write_text(text.replace(old, new), encoding="utf-8")

    return step


def cut(name: str, share: float = 0.5) -> Step:
    """A file of which a share is left."""

    def step(here: Path) -> None:
        content = (here / name).read_bytes()
        (here / name).write_bytes(content[: int(len(content) * share)])

    return step


def copy(source: str, target: str) -> Step:
    """A file or folder in the place of another."""

    def step(here: Path) -> None:
        if (here / source).is_dir():
            shutil.rmtree(here / target, ignore_errors=True)
            shutil.copytree(here / source, here / target)
        else:
            shutil.copy(here / source, here / target)

    return step


def gone(name: str) -> Step:
    """A file or folder that is not there any more."""

    def step(here: Path) -> None:
        shutil.rmtree(here / name) if (here / name).is_dir() else (here / name).unlink()

    return step


def folder(name: str) -> Step:
    """An empty folder."""
    return lambda here: (here / name).mkdir(parents=True, exist_ok=True)


def locked(name: str, mode: int = 0o555) -> Step:
    """A file or folder that may be read and not written, or as `mode` says."""
    return lambda here: (here / name).chmod(mode)


def link(name: str, target: str) -> Step:
    """A symbolic link."""
    return lambda here: (here / name).symlink_to(target)


def fifo(name: str) -> Step:
    """A named pipe, which nobody writes to."""
    return lambda here: os.mkfifo(here / name)
