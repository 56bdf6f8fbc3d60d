"""Without the names that Windows' Python lacks: the help, a training, locks, and the end of a child.

Each in a process of its own, from which they are taken before anything is imported (`support/without`).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = (
    "fcntl resource signal.SIGHUP signal.SIGALRM signal.setitimer signal.pthread_sigmask os.O_DIRECTORY os.O_NOFOLLOW"
    " os.killpg os.wait4 os.sched_getaffinity"
)
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parent / "support" / "without"),
    "PYTHONSAFEPATH": "1",
    "TFCLI_TEST_WITHOUT": WITHOUT,
}

CLAIMS = """
import sys, time
from pathlib import Path
from tfcli.errors import TfcliError
from tfcli.files import claimed
try:
    with claimed(Path(sys.argv[1])):
        print("mine", flush=True)
        time.sleep(float(sys.argv[2]))
except TfcliError as error:
    print(error)
"""

HOLDS = """
import sys, time
from pathlib import Path
from tfcli.errors import TfcliError
from tfcli.runs.directory import RunDirectory
from tfcli.runs.directory import held, is_held
run = RunDirectory(Path(sys.argv[1]))
print(is_held(run))
try:
    with held(run):
        print("mine", flush=True)
        time.sleep(float(sys.argv[2]))
except TfcliError as error:
    print(error)
"""


def python(code: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def said(code: str, *arguments: object) -> str:
    return python(code, *arguments).communicate(timeout=120)[0]


def test_the_names_are_gone():
    asked = "import importlib.util, signal; print(hasattr(signal, 'SIGHUP'), importlib.util.find_spec('fcntl'))"
    assert said(asked) == "False None\n"


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["recipes", "list"]])
def test_commands_start(words: list[str]):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tfcli", *words], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_is_claimed_by_one_process_and_let_go_of_by_a_killed_one(tmp_path: Path):
    folder = tmp_path / "made" / "run"
    first = python(CLAIMS, folder, 600)
    assert first.stdout is not None and first.stdout.readline() == "mine\n"
    assert said(CLAIMS, folder, 0).startswith(f"Another process is making {folder}; ")
    first.kill()
    first.communicate()
    assert said(CLAIMS, folder, 0) == "mine\n"
    assert [*tmp_path.rglob("*.lock")] == [], "and nothing is left beside it"


def test_a_run_is_trained_by_one_process_and_let_go_of_by_a_killed_one(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    first = python(HOLDS, tmp_path, 600)
    assert first.stdout is not None
    assert [first.stdout.readline() for _ in range(2)] == ["False\n", "mine\n"]
    asked, refused = said(HOLDS, tmp_path, 0).splitlines()
    assert asked == "True" and refused.startswith(f"Another process trains into {tmp_path}; ")
    first.kill()
    first.communicate()
    assert said(HOLDS, tmp_path, 0) == "False\nmine\n"


def test_a_signal_that_waits_for_a_library_comes_once_more():
    """As the handler sends it, where there is no alarm."""
    code = """
import signal, time
from tfcli.console.signals import _again, stop_on_signals, Stopped
try:
    with stop_on_signals():
        _again(signal.SIGINT)
        for _ in range(6000):
            time.sleep(0.01)
except Stopped as stopped:
    print(stopped.exit_code)
"""
    assert said(code) == "130\n"


def test_a_child_ends_with_its_block():
    code = """
import sys
from tfcli.machine import PIPE, child
with child("timeit", "-n1", "-r1", "import time; print(1, flush=True); time.sleep(600)", stdout=PIPE) as process:
    process.stdout.readline()
print(process.returncode)
"""
    assert said(code) == "-9\n"
