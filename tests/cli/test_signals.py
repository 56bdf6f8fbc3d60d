"""Ctrl-C, SIGTERM, closed terminals and closed pipes, for real processes."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.commands import process, tfcli
from tfcli.console.signals import Stopped, StopRequest, stop_on_signals, stopped
from tfcli.runs.checkpoint import last_checkpoint
from tfcli.runs.directory import RunDirectory

# Hundreds of short steps: the signal comes long before the last one.
LONG = [
    *("--set", "train.steps=3000", "--set", "train.log_every=1", "--set", "train.batch_size=2"),
    *("--set", "data.max_documents=200", "--set", "model.d_model=16", "--set", "model.num_layers=1"),
    *("--set", "model.num_heads=2", "--set", "model.max_seq_len=16", "--set", "tokenizer.algorithm=char"),
    *("--set", "train.evaluate_every=0", "--set", "train.threads=1"),
]


def interrupted(*arguments: str, number: signal.Signals, behind: str, times: int = 1) -> tuple[int, str, str]:
    """Send a signal once stderr has shown a line that begins with `behind`."""
    command = process(*arguments)
    assert command.stderr is not None
    seen = ""
    for line in command.stderr:
        seen += line
        if line.startswith(behind):
            for _ in range(times):
                command.send_signal(number)
            break
    out, err = command.communicate(timeout=60)
    return command.returncode, out, seen + err


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_training_finishes_its_step_saves_it_and_says_how_to_go_on(
    number: signal.Signals, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    run = RunDirectory(Path("runs/my run"))

    code, out, err = interrupted(
        "train", "--arch", "decoder", *LONG, "--out", str(run.path), number=number, behind="step"
    )

    assert code == exit_code
    assert out == ""
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    step = int(re.search(r"Stopped after step (\d+), which is saved in runs/my run;", last)[1])  # type: ignore[index]
    assert 1 <= step < 3000
    assert list(run.checkpoints()) == [step]
    assert tfcli("evaluate", run.path, "--quiet").exit_code == 0  # what was saved is a run like any other

    # The command that it names goes on at that step. The rest of the way is cut short for the test.
    again = shlex.split(re.search(r"`(.+)`", last)[1])  # type: ignore[index]
    assert again == ["tfcli", "train", "--resume", "runs/my run"]
    resumed = tfcli(*again[1:], "--set", f"train.steps={step + 5}")
    assert resumed.exit_code == 0, resumed.stderr
    assert resumed.stdout == "runs/my run\n"
    assert "resume" in resumed.stderr
    assert f"train.steps: 3000 → {step + 5}" in resumed.stderr
    checkpoint = last_checkpoint(run)
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.progress.finished) == (step + 5, True)


def test_a_second_ctrl_c_stops_at_once_and_the_run_still_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Under `run`, what goes on is the same command with --out, which then does the stages that follow."""
    monkeypatch.chdir(tmp_path)
    code, out, err = interrupted(
        *("run", "quickstart", *LONG, "--set", "train.save_every=1", "--out", "run"),
        *("--check", "--device", "cpu", "--threads", "1", "--seed", "3"),
        number=signal.SIGINT,
        behind="save",
        times=2,
    )
    assert code == 130
    assert out == ""
    assert "Traceback" not in err
    command = re.search(r"go on with `(tfcli run quickstart .+)`\.$", err.splitlines()[-1])
    assert command is not None
    again = shlex.split(command[1])
    assert again[-9:] == ["--seed", "3", "--device", "cpu", "--threads", "1", "--check", "--out", "run"]
    assert again[3 : 3 + len(LONG)] == LONG
    assert RunDirectory(Path("run")).checkpoints()


def test_a_signal_before_training_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TFCLI_CACHE", str(tmp_path / "cache"))
    code, out, err = interrupted(
        "train", "--arch", "decoder", "--out", "run", number=signal.SIGTERM, behind="Tokenizer"
    )
    assert (code, out) == (143, "")
    assert err.splitlines()[-1] == "tfcli: Stopped; nothing is left half-written."
    assert not (tmp_path / "run").exists()
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_closed_pipe_stops_a_training_as_a_signal_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As in `tfcli train --json | grep -m1 started`: it is stopped, saved and told, not ended as if it were done."""
    monkeypatch.chdir(tmp_path)
    command = process("train", *LONG, "--out", "run", "--json", "--quiet")
    assert command.stdout is not None
    assert command.stderr is not None
    for line in command.stdout:
        if '"event": "started"' in line:
            break
    command.stdout.close()
    [sentence] = command.stderr.read().splitlines()
    assert command.wait(timeout=60) == 1
    step = re.fullmatch(
        r"tfcli: Stopped after step (\d+), which is saved in run, for nobody reads the output any more; "
        r"go on with `tfcli train --resume run`\.",
        sentence,
    )
    assert step is not None, sentence
    assert list(RunDirectory(Path("run")).checkpoints()) == [int(step[1])]


def test_a_pipe_that_closes_before_training_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    command = process("train", *LONG, "--out", "run", "--json", "--quiet")
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    assert command.stderr.read() == (
        "tfcli: Nobody reads the output any more, so nothing was trained; write it to a file.\n"
    )
    assert command.wait(timeout=60) == 1
    assert not Path("run").exists()


def test_a_terminal_that_closes_says_so_twice_and_the_step_is_saved_all_the_same():
    """By the shell and by the system; only what people send a second time stops at once."""
    request = StopRequest()
    request.armed = True
    for _ in range(3):
        request.receive(signal.SIGHUP, None)
        assert (request.asked(), request.exit_code) == (True, 129)
    for number in (signal.SIGINT, signal.SIGTERM):
        with pytest.raises(Stopped):
            request.receive(number, None)


def test_under_nohup_a_closed_terminal_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as request:
            request.armed = True
            os.kill(os.getpid(), signal.SIGHUP)
            assert not request.asked()
            os.kill(os.getpid(), signal.SIGTERM)
            assert request.exit_code == 143
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("how", ["full", "closed"])
def test_a_stderr_that_fails_stops_no_training(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The disk of its log is full, or nobody reads it any more; the run is trained and its path printed."""
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "--steps", "30", *LONG[2:], "--out", "run"]
    reader, writer = os.pipe()
    with Path("/dev/full").open("w") as full:
        stderr = full if how == "full" else writer
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "tfcli", *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True, check=False
        )
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, "run\n")
    checkpoint = last_checkpoint(RunDirectory(Path("run")))
    assert checkpoint is not None
    assert checkpoint.progress.finished


@pytest.mark.parametrize(
    ("module", "times"),
    [
        ("typer.core", 1),
        ("typer.core", 10),
        ("tfcli.cli.main", 10),
        ("numpy.linalg", 1),
        ("torch._C", 1),
        ("torch", 10),
    ],
)
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=str)
def test_signals_while_modules_are_loaded_end_in_one_sentence(
    module: str, times: int, number: signal.Signals, exit_code: int
):
    """The first libraries, our own commands, and those that a command loads when it runs: Python says on stderr what it
    has just loaded."""
    command = process("inspect", "cost", "--size", "tiny", "--set", "model.vocab_size=512", PYTHONPROFILEIMPORTTIME="1")
    assert command.stderr is not None
    for line in command.stderr:
        if line.rstrip().endswith(f" {module}"):
            break
    for _ in range(times):
        command.send_signal(number)
    out, err = command.communicate(timeout=60)
    said = [line for line in err.splitlines() if not line.startswith("import time:")]
    assert (command.returncode, out, said) == (exit_code, "", ["tfcli: Stopped; nothing is left half-written."])


def test_a_signal_after_the_end_changes_nothing():
    """Between the last word of a command and the end of Python, when libraries tidy up."""
    code = (
        "import atexit, os, signal, sys\nfrom tfcli.__main__ import main\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\nsys.argv = ['tfcli', *sys.argv[1:]]\nmain()\n"
    )
    for words, exit_code in ((["--version"], 0), (["nosuch"], 2)):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.returncode == exit_code
        assert "Traceback" not in done.stderr and "Stopped" not in done.stderr


def test_a_signal_that_python_cannot_raise_comes_once_more():
    class Deaf:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            sum(range(10))

    with pytest.raises(Stopped) as caught, stop_on_signals():  # noqa: PT012
        deaf = Deaf()
        del deaf
        time.sleep(5)
    assert caught.value.exit_code == 143


def test_signals_are_ignored_while_a_command_tidies_up():
    tidied = []
    with pytest.raises(Stopped), stop_on_signals(), stop_on_signals():  # noqa: PT012
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM) * 5:
                os.kill(os.getpid(), number)
                tidied.append(number)
    assert len(tidied) == 10
    with pytest.raises(Stopped), stop_on_signals():  # another command of this process hears them again
        os.kill(os.getpid(), signal.SIGINT)


def test_a_stop_that_a_library_has_swallowed_is_not_what_a_later_fault_is_called(monkeypatch: pytest.MonkeyPatch):
    with stop_on_signals():
        with suppress(Stopped):
            os.kill(os.getpid(), signal.SIGINT)
        assert stopped()
        monkeypatch.setattr("tfcli.console.signals._PATIENCE", 0.0)
        assert not stopped()


def test_a_training_whose_output_cannot_be_written_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As where nobody reads it: its events are lost from there on, and the run is not."""
    monkeypatch.chdir(tmp_path)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tfcli", "train", *LONG, "--out", "run", "--json", "--quiet"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "tfcli: The output cannot be written (No space left on device), so nothing was trained; write it to a file.\n"
    )
    assert not Path("run").exists()
