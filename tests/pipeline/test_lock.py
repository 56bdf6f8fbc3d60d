"""Two trainings never write into one run."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import SHRUNK, snapshot, tfcli
from tests.support.runs import resume_tiny, same, stop_after, tiny_recipe, train_tiny, weights
from tfcli.errors import UsageError
from tfcli.runs.directory import RunDirectory, held
from tfcli.runs.load import load_run

HOLDER = """
import sys, time
from pathlib import Path
from tfcli.runs.directory import RunDirectory
from tfcli.runs.directory import held

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


TEXT = "Tom has a red ball. The ball is big.\n" * 200


def test_a_run_is_claimed_before_its_text_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One training waits for its text while others begin and end: by its default name, and by the same --out."""
    monkeypatch.chdir(tmp_path)
    words = ("train", "--size", "tiny", "--quiet", *SHRUNK, "--set", "data.validation_fraction=0.2")
    for named in ((), ("--out", "mine")):
        waiting = subprocess.Popen(
            [sys.executable, "-m", "tfcli", *words, "--data", "-", *named],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        first = Path("mine" if named else "runs/decoder-1")
        while not first.is_dir():
            assert waiting.poll() is None
            time.sleep(0.02)
        other = tfcli(*words, *named)
        if named:
            assert (other.exit_code, other.stdout) == (2, "")
            assert other.stderr == (
                "tfcli: Another process is making mine; wait until it has ended, or choose another --out.\n"
            )
        else:
            assert other.exit_code == 0
            second = snapshot(Path("runs/decoder-2"))
        _, said = waiting.communicate(TEXT)
        assert (waiting.returncode, said) == (0, "")
        assert tfcli("generate", first, "Tom", "--max-new-tokens", "1").exit_code == 0
    assert snapshot(Path("runs/decoder-2")) == second
    assert load_run("runs/decoder-2").config.run_id != load_run("runs/decoder-1").config.run_id
    assert sorted(path.name for path in Path("runs").iterdir()) == ["decoder-1", "decoder-2"]


def test_a_training_that_is_refused_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    for named in ((), ("--out", "deep/er/mine")):
        assert tfcli("train", "--size", "tiny", "--data", "empty.txt", *named).exit_code == 2
        assert [*Path().iterdir()] == [Path("empty.txt")]


@pytest.mark.parametrize(
    "name", ["../../x", "/tmp/x", "a/b", "a\nb", "\x1b[31mred", "..", ".hidden", "a b", "n" * 101, "‮rtl", ""]
)
def test_a_recipe_s_name_is_never_a_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("mine.toml").write_text(f"name = {json.dumps(name, ensure_ascii=name.isascii())}\n")
    result = tfcli("train", "--recipe", "mine.toml", "--dry-run", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "cannot be the name of a run; use letters, digits, '.', '_' and '-', 100 at most" in result.stderr
    assert "\x1b" not in result.stderr
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "here", tmp_path / "here" / "mine.toml"]
