"""Two trainings never write into one run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs import resume_tiny, same, stop_after, tiny_recipe, train_tiny, weights
from tfcli.errors import UsageError
from tfcli.runs.directory import RunDirectory
from tfcli.runs.lock import held

HOLDER = """
import sys, time
from pathlib import Path
from tfcli.runs.directory import RunDirectory
from tfcli.runs.lock import held

with held(RunDirectory(Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    train_tiny(tiny_recipe("decoder"), tmp_path / "run", stop=stop_after(5))
    return tmp_path / "run"


def test_a_run_that_another_process_trains_is_refused_and_left_as_it_is(interrupted: Path):
    """Resumed, and named by --out with the same recipe. When the other one is killed, the run is free again."""
    before = weights(interrupted / "model.safetensors")
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(interrupted)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for again in (resume_tiny, lambda run: train_tiny(tiny_recipe("decoder"), run)):
            with pytest.raises(UsageError, match=f"Another process trains into {interrupted}"):
                again(interrupted)
        assert same(before, weights(interrupted / "model.safetensors"))
        other.kill()
        other.wait()
    finished, _ = resume_tiny(interrupted)
    assert finished.reason == "done"


def test_a_run_is_free_after_an_error(interrupted: Path):
    with pytest.raises(ZeroDivisionError), held(RunDirectory(interrupted)):
        raise ZeroDivisionError
    with held(RunDirectory(interrupted)):
        pass


def test_a_run_is_held_while_it_trains(tmp_path: Path):
    """Asked in the middle of the training, through the question that the loop asks after every step."""
    refusals = []

    def ask() -> bool:
        try:
            with held(RunDirectory(tmp_path / "run")):
                pass
        except UsageError as error:
            refusals.append(str(error))
        return False

    train_tiny(tiny_recipe("decoder"), tmp_path / "run", stop=ask)
    assert len(refusals) == 12
