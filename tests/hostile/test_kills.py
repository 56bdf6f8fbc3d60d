"""Signals at many moments: 130 or 143, nothing half-written, no process left, and what is left loads (training.md)."""

import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.hostile.harness import UNSAFE, Place, require_no_leftovers, require_nothing_runs
from tfcli.machine import python_command

LONG = (
    "--set train.steps=100000 --set train.save_every=1 --set train.log_every=1 --set train.batch_size=2 --set "
    "model.d_model=16 --set model.num_layers=1 --set model.num_heads=2 --set model.max_seq_len=16 --set "
    "tokenizer.algorithm=char --set train.evaluate_every=0"
)
TRAIN = f"train --data text.txt --out run {LONG}"
NAMES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def _stopped(
    place: Place, command: str, number: int, *, after: float = 0, behind: str = "", times: int = 1
) -> tuple[int, str]:
    """Run a command, send it a signal so many seconds after stderr has had a line that begins so; its exit code
    and stderr."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = place.start(command.split(), **pipes)
    watch = threading.Timer(120, process.kill)
    watch.start()
    said = b""
    try:
        assert process.stderr is not None
        for line in process.stderr if behind else ():
            said += line
            if line.startswith(behind.encode()):
                break
        time.sleep(after)
        for _ in range(times):
            process.send_signal(number)
        said += process.communicate(timeout=60)[1]
    finally:
        watch.cancel()
        process.kill()
    require_nothing_runs(process.pid)
    return process.returncode, said.decode()


def _plain(said: str) -> None:
    for word in ("Traceback", "has a fault", "Exception ignored", "KeyboardInterrupt"):
        assert word not in said, said[-3000:]
    assert not UNSAFE.search(said), ascii(said[-3000:])


def _loads(place: Place, run: str = "run") -> None:
    done = subprocess.run(
        python_command("tfcli", "generate", run, "Tom", "--max-new-tokens", "2", "--checkpoint", "last"),
        cwd=place.here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", NAMES, ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("after", [0.02, 0.05, 0.1, pytest.param(0.3, marks=pytest.mark.sample), 0.8, 2.0])
def test_a_signal_while_a_training_begins(number: int, after: float, place: Place):
    place.bring(["text.txt"])
    code, said = _stopped(place, TRAIN, number, after=after)
    # Before Python has come as far as tfcli, nothing can answer: the signal ends the process.
    early = (-number, 1) if after <= 0.1 else ()
    assert code in (NAMES[signal.Signals(number)], *early), said
    if after > 0.1 or "tfcli" in said:
        _plain(said)  # Python's own traceback, in its first milliseconds, names no file of tfcli
    require_no_leftovers(place)
    if (place.here / "run").exists():
        _loads(place)


@pytest.mark.parametrize("number", NAMES, ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("times", [1, 10])
def test_a_signal_in_the_middle_of_a_training(number: int, times: int, place: Place):
    place.bring(["text.txt"])
    code, said = _stopped(place, TRAIN, number, behind="step", times=times)
    assert code == NAMES[signal.Signals(number)], said
    assert "tfcli train --resume run" in said
    _plain(said)
    require_no_leftovers(place)
    _loads(place)


@pytest.mark.parametrize("after", [0.0, 0.05, 0.2, 0.7])
def test_a_kill_in_the_middle_of_a_training(after: float, place: Place):
    place.bring(["text.txt"])
    process = place.start(TRAIN.split(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"save"):
            break
    time.sleep(after)
    process.kill()
    process.communicate()
    require_nothing_runs(process.pid)
    _loads(place)


COMMANDS = {
    "tokenizing": ("tokenize train builtin:stories --vocab-size 4000 --out t.json", "Tokenizer", 0.5),
    "preparing": ("prepare builtin:stories --tokenizer tokenizer.json --out data", "Data", 0.5),
    "planning": ("plan --minutes 5", "Preparing", 2),
    "training what was planned": ("plan --minutes 1 --check", "mini:", 2),
    "measuring": ("bench train --size tiny --steps 5000", "", 4),
    "scoring": ("evaluate decoder builtin:stories", "", 3),
    "proving": ("verify decoder", "", 4),
    "training in two processes": (f"train --data text.txt --out run --nproc 2 {LONG}", "step", 0.5),
}


@pytest.mark.parametrize("number", NAMES, ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_in_the_middle_of(name: str, number: int, place: Place):
    place.bring(["text.txt", "tokenizer.json", "decoder"])
    before = {path.name for path in place.here.iterdir()}
    command, behind, after = COMMANDS[name]
    code, said = _stopped(place, command, number, behind=behind, after=after)
    assert code == NAMES[signal.Signals(number)], said
    assert said.splitlines()[-1].startswith("tfcli: Stopped"), said
    _plain(said)
    require_no_leftovers(place)
    new = {path.name for path in place.here.iterdir()} - before
    assert new <= {"run"}, new


@pytest.mark.parametrize("after", [0.5, 1.0, 2.0, 3.0])
def test_a_kill_in_the_middle_of_preparing_leaves_no_dataset_that_is_half_one(after: float, place: Place):
    place.bring(["tokenizer.json"])
    command = "prepare builtin:stories --tokenizer tokenizer.json --out data --set data.max_documents=8000"
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = place.start(command.split(), **pipes)
    time.sleep(after)
    process.kill()
    process.wait()
    require_nothing_runs(process.pid)
    whole = {"manifest.json", "tokenizer.json", "train-00000.tokens.npy", "validation-00000.offsets.npy"}
    data = Path(place.here / "data")
    # The place is claimed, and so there, before anything is in it.
    assert not data.exists() or not (there := {path.name for path in data.iterdir()}) or whole <= there
    again = place.start(command.split(), **pipes)
    assert again.wait(timeout=60) == 0
    assert whole <= {path.name for path in data.iterdir()}
