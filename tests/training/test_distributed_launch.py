"""`tfcli train --nproc N` and torchrun, as processes: deaths, signals, refusals."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.commands import process, tfcli
from tests.support.runs import same, weights
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.training.distributed import OWN_STORE

SMALL = [
    *("--arch", "decoder", "--device", "cpu", "--threads", "1"),
    *("--set", "train.steps=40", "--set", "train.log_every=1", "--set", "train.batch_size=4"),
    *("--set", "train.save_every=5", "--set", "train.evaluate_every=0", "--set", "model.dropout=0.2"),
    *("--set", "data.max_documents=120", "--set", "tokenizer.algorithm=char", "--set", "model.max_seq_len=16"),
    *("--set", "model.d_model=16", "--set", "model.num_layers=1", "--set", "model.num_heads=2"),
]


def workers_of(launcher: int) -> list[int]:
    """The processes that it has started, in the order of their ranks."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    ranks = {}
    for child in map(int, children):
        for line in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            if line.startswith(b"RANK="):
                ranks[int(line[5:])] = child
    return [ranks[rank] for rank in sorted(ranks)]


def launched(
    *arguments: str | Path, at: str = "", number: signal.Signals = signal.SIGTERM, to: str = ""
) -> tuple[int, str, str]:
    """Run a command, and send a signal to the launcher or a worker once stderr has shown a line that holds `at`."""
    command = process("train", *arguments)
    assert command.stderr is not None
    seen = ""
    for line in command.stderr if at else ():
        seen += line
        if at in line:
            os.kill(command.pid if to == "launcher" else workers_of(command.pid)[int(to)], number)
            break
    out, err = command.communicate(timeout=120)
    return command.returncode, out, seen + err


def test_more_processes_than_rows_are_refused_before_any_work(tmp_path: Path):
    result = tfcli("train", *SMALL, "--nproc", "5", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert result.stderr.startswith("tfcli: 5 processes cannot share train.batch_size = 4; use 4 processes or fewer")
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_not_there_is_not_launched(tmp_path: Path):
    result = tfcli("train", "--resume", tmp_path / "none", "--nproc", "2")
    assert result.exit_code == 2
    assert "There is no run" in result.stderr


def listening(numbers: Iterable[int]) -> set[str]:
    """The addresses where one of these processes waits for connections or packets."""
    sockets = set()
    for number in numbers:
        with suppress(OSError):
            for file in Path(f"/proc/{number}/fd").iterdir():
                with suppress(OSError):
                    sockets.add(str(file.readlink()).removeprefix("socket:[").rstrip("]"))
    found = set()
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] in sockets and (words[3] == "0A" or protocol.startswith("udp")):
                found.add(words[1].partition(":")[0])
    return found


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")
def test_nothing_listens_but_on_loopback(tmp_path: Path):
    """From the first moment to the last: 127.0.0.1 or ::1, as /proc has them. And they do talk, so something does."""
    command = process("train", *SMALL, "--nproc", "2", "--out", tmp_path / "run", "--quiet")
    seen: set[str] = set()
    while command.poll() is None:
        with suppress(OSError):
            seen |= listening([command.pid, *workers_of(command.pid)])
        time.sleep(0.01)
    assert command.communicate() == (f"{tmp_path / 'run'}\n", "")
    assert seen and seen <= {"0100007F", "00000000000000000000000001000000"}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")
def test_workers_end_with_a_launcher_that_is_killed(tmp_path: Path):
    command = process("train", *SMALL, "--set", "train.steps=3000", "--nproc", "2", "--out", tmp_path / "run")
    assert command.stderr is not None
    for line in command.stderr:
        if line.startswith("step"):
            break
    workers = workers_of(command.pid)
    command.kill()
    command.communicate()
    assert len(workers) == 2
    for worker in workers:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{worker}/cmdline").exists() and Path(f"/proc/{worker}/cmdline").read_bytes():
            assert time.monotonic() < deadline, f"{worker} lives on"
            time.sleep(0.01)
    assert load_run(tmp_path / "run", "last").recipe.train.steps == 3000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")
def test_a_killed_worker_changes_nothing(tmp_path: Path):
    """Killed in the middle of the run, the first worker or the second: all start again, and end where an unbroken run
    ends, to the last bit. The best weights generate."""
    expected = tmp_path / "unbroken"
    assert launched(*SMALL, "--nproc", "2", "--out", expected)[:2] == (0, f"{expected}\n")
    for rank in ("0", "1"):
        run = tmp_path / rank
        code, out, err = launched(*SMALL, "--nproc", "2", "--out", run, at=" 12/40", number=signal.SIGKILL, to=rank)
        assert (code, out) == (0, f"{run}\n"), err
        assert "A worker has died. All go on together from the last checkpoint." in err
        assert "Traceback" not in err
        for name in ("model.safetensors", "optimizer.safetensors"):
            last = [weights(RunDirectory(one).checkpoint(40) / name) for one in (run, expected)]
            assert same(*last)
    assert tfcli("generate", expected, "Once", "--max-new-tokens", "4").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_launcher_saves_once_and_ends_all(tmp_path: Path, number: signal.Signals, exit_code: int):
    run = tmp_path / "run"
    code, out, err = launched(*SMALL, "--nproc", "2", "--out", run, at=" 12/40", number=number, to="launcher")
    assert (code, out) == (exit_code, "")
    assert err.count(f"go on with `tfcli train --resume {run} --nproc 2`") == 1
    assert "A worker has died" not in err
    [step] = list(RunDirectory(run).checkpoints())
    assert 12 <= step < 40
    code, out, err = launched("--resume", run, "--nproc", "2")
    assert (code, out) == (0, f"{run}\n"), err


@pytest.mark.slow
def test_torchrun_begins_a_run_and_goes_on_with_it(tmp_path: Path):
    """As on a cluster: the same command both times. Without --out it is refused, once."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tfcli"]
    environment = {**os.environ, OWN_STORE: "1"}

    def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        words = [*command, "train", *SMALL, *map(str, arguments)]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)

    refused = run()
    assert refused.returncode == 1
    assert refused.stderr.count("name it: --out RUN") == 1
    for _ in range(2):
        done = run("--out", tmp_path / "run")
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{tmp_path / 'run'}\n"
    assert load_run(tmp_path / "run").recipe.train.steps == 40
