"""Kills, full disks, limits and folders that turn read-only: the last good checkpoint stays, and the run goes on."""

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.disks import half_written, small_disk
from tests.support.kills import finishes
from tests.support.left import Left, require_equal, what_is_left
from tests.support.runs import Settings, one_thread, resume_tiny, tiny_recipe, train_tiny
from tfcli.errors import TfcliError
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run


@pytest.mark.parametrize("adapts", [False, True])
@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_at_random_instants_ends_as_the_unbroken_one(tmp_path: Path, kills: int, adapts: bool):
    """Every step writes a checkpoint, so that many kills come in the middle of one."""
    if adapts:
        train_tiny(tiny_recipe("decoder", {"model": {"dropout": 0.2}}), tmp_path / "base")
    init = str(tmp_path / "base") if adapts else None
    command = [sys.executable, "-m", "tests.support.kills", str(tmp_path), str(kills), "0", *([init] if init else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    counted = json.loads(done.stdout)
    finishes(tmp_path / "unbroken", init=init)
    unbroken = what_is_left(tmp_path / "unbroken")
    assert counted["kills"] == kills
    if kills == 100:
        assert counted["inside"] >= 20, counted
    for number in range(counted["runs"]):
        run = tmp_path / f"run-{number}"
        require_equal(what_is_left(run), unbroken)
        assert half_written(run) == []


FAULTY: Settings = {"train": {"steps": 12, "save_every": 4, "evaluate_every": 6, "log_every": 2}}


@pytest.fixture(scope="module")
def unbroken(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Left:
    run = tmp_path_factory.mktemp("unbroken") / "run"
    with one_thread():
        train_tiny(tiny_recipe("decoder", FAULTY), run)
    return what_is_left(run)


def at_question(number: int, action: Callable[[], object]) -> Callable[[], bool]:
    """A `should_stop` that never says yes, and does something when it is asked for the n-th time."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        if asked == number:
            action()
        return False

    return should_stop


def fails(run: Path, action: Callable[[], object], *, step: int, words: str, kept: int) -> None:
    """Train until something happens behind a step, and look at what is said and what is left."""
    with pytest.raises(TfcliError) as caught:
        train_tiny(tiny_recipe("decoder", FAULTY), run, stop=at_question(step, action))
    message = str(caught.value)
    assert words in message
    assert f"(the checkpoint of step {kept} is kept); make room there and go on with `tfcli" in message
    assert f"--resume {run}`" in message
    assert caught.value.exit_code == 1
    assert "\n" not in message
    assert [*RunDirectory(run).checkpoints()] == [kept]
    assert half_written(run) == []
    for checkpoint in ("best", "last"):
        load_run(run, checkpoint)


def goes_on(run: Path, unbroken: Left) -> None:
    """To the end that the unbroken run has."""
    with one_thread():
        resume_tiny(run)
    require_equal(what_is_left(run), unbroken)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one mebibyte."""
    try:
        with small_disk(tmp_path / "disk", 1024):
            yield tmp_path / "disk"
    except PermissionError as error:
        pytest.skip(str(error))


def fill(disk: Path) -> None:
    """Leave no place on it."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (4096, 1):
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):  # noqa: PT012 (until there is no place)
                while file.write(b"x" * size):
                    pass


@pytest.mark.parametrize(
    ("step", "what", "kept"),
    [(7, "metrics.jsonl", 4), (5, "run/model.safetensors", 4), (7, "step-000008/model.safetensors", 4)],
    ids=["metrics", "best weights", "checkpoint"],
)
def test_a_disk_that_fills_up_spares_the_last_checkpoint(disk: Path, unbroken: Left, step: int, what: str, kept: int):
    """For real. A few bytes go where metrics.jsonl has begun a block, so that what fails may be what comes after it."""
    run = disk / "run"

    def full() -> None:
        if what == "metrics.jsonl":
            place = 4096 - (run / "metrics.jsonl").stat().st_size % 4096
            with (run / "metrics.jsonl").open("a") as file:
                file.write(" " * (place - 8))
        fill(disk)

    fails(run, full, step=step, words=f"{what}: No space left on device", kept=kept)
    (disk / "filler").unlink()
    goes_on(run, unbroken)


def attribute(change: str, folder: Path) -> bool:
    """Make a folder one that even root cannot write to, or back again; whether that can be done here."""
    return subprocess.run(["chattr", change, str(folder)], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("folder", [".", "checkpoints"])
def test_a_folder_that_turns_read_only_is_told(tmp_path: Path, unbroken: Left, folder: str):
    """The run's own, where the best weights are to go, or that of its checkpoints. The first save writes both."""
    run = tmp_path / "run"
    (tmp_path / "probe").mkdir()
    if not attribute("+i", tmp_path / "probe"):
        pytest.skip("only root can do that, and not on every disk")
    attribute("-i", tmp_path / "probe")
    try:
        fails(run, lambda: attribute("+i", run / folder), step=3, words="Operation not permitted", kept=0)
    finally:
        attribute("-i", run / folder)
    goes_on(run, unbroken)


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """As `ulimit -f` has it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_limit_on_the_size_of_files_is_told(tmp_path: Path, unbroken: Left):
    run = tmp_path / "run"
    limit = files_no_longer_than(10_000)
    try:
        fails(run, limit.__enter__, step=3, words="model.safetensors: File too large", kept=0)
    finally:
        limit.__exit__(None, None, None)
    goes_on(run, unbroken)


@pytest.mark.parametrize("fails_at", ["model.safetensors", "state.json", "metrics.jsonl"])
def test_a_disk_that_is_full_only_when_it_is_flushed(
    tmp_path: Path, unbroken: Left, monkeypatch: pytest.MonkeyPatch, fails_at: str
):
    """A network disk tells only then that it could not keep what was written."""
    true = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name.strip(".").startswith(fails_at):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        true(descriptor)

    with monkeypatch.context() as patch:
        fails(
            tmp_path / "run",
            lambda: patch.setattr(os, "fsync", fsync),
            step=3,
            words="No space left on device",
            kept=0,
        )
    goes_on(tmp_path / "run", unbroken)


def test_an_older_checkpoint_goes_only_once_the_new_one_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The order of what the system is asked for: every file of the new one is flushed, then its folder; it gets its
    name; then the folder it is in is flushed; and only then the old one loses its name."""
    calls: list[str] = []
    true_fsync, true_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        calls.append(f"flush {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        true_fsync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        calls.append(f"rename {target.name}")
        return true_rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    train_tiny(tiny_recipe("decoder", {"train": {"steps": 4, "save_every": 4, "evaluate_every": 0}}), tmp_path / "run")
    named = calls.index("rename step-000004")
    before = calls[:named]
    last_metrics = len(before) - 1 - before[::-1].index("flush metrics.jsonl")
    flushed = before[last_metrics:]
    for file in ("model.safetensors", "optimizer.safetensors", "state.json"):
        assert f"flush {file}" in flushed
    assert flushed[-1].startswith("flush .step-000004.")
    assert calls[named + 1] == "flush checkpoints"
    assert calls.index("rename .step-000000.tmp") == named + 2
