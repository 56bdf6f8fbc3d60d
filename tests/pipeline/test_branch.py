"""``tfcli train --resume RUN --checkpoint STEP --out NEW``: a new run from a checkpoint of another one."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.pipeline.corpora import contents
from tests.support.app import app
from tests.support.left import what_is_left
from tests.support.runs import Events, Settings, one_thread, resume_tiny, same, tiny_recipe, train_tiny, weights
from tfcli.errors import UsageError
from tfcli.files import read_json
from tfcli.pipeline.training import branch_run, resume_run
from tfcli.recipe.loading import load_recorded
from tfcli.recipe.train import TrainSection
from tfcli.records.runs import StepsDone, TrainingStarted
from tfcli.runs.directory import RunDirectory
from tfcli.runs.metrics import read_history
from tfcli.training.checkpoint import checkpoints_to_keep
from tfcli.training.schedule import learning_rate

WSD: Settings = {
    "model": {"dropout": 0.1},
    "train": {"schedule": "wsd", "decay_share": 0.5, "log_every": 1, "label_smoothing": 0.1, "ema_decay": 0.5},
}


@pytest.fixture(scope="module")
def run(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 steps, of which the last 6 decay; saved and evaluated every 4."""
    path = tmp_path_factory.mktemp("branch") / "run"
    with one_thread():
        train_tiny(tiny_recipe("encoder-decoder", WSD), path)
    return path


def test_the_last_checkpoint_before_the_decay_is_kept(run: Path):
    assert [*RunDirectory(run).checkpoints()] == [4, 12]


@pytest.mark.parametrize(
    ("steps", "keep", "kept"),
    [
        ({4, 8, 12, 16, 20}, 1, {16, 20}),  # the decay begins behind step 16
        ({4, 8, 12, 16, 20}, 3, {12, 16, 20}),
        ({0, 4, 8}, 1, {4, 8}),
        ({0, 3}, 1, {3}),
        ({15, 20}, 1, {20}),  # that of an interruption is none
    ],
    ids=str,
)
def test_one_from_before_the_decay_is_kept_beside_the_last_ones(steps: set[int], keep: int, kept: set[int]):
    section = TrainSection(steps=20, warmup_steps=2, save_every=4, keep_checkpoints=keep, schedule="wsd")
    assert checkpoints_to_keep(steps, section) == kept


def test_a_branch_goes_on_from_there_and_the_old_run_stays(run: Path, tmp_path: Path):
    """Without a change it does what the old run did, to the bit; with more steps it stays at the peak for longer."""
    before, names = contents(run), ("same", "longer")
    for name in names:
        assert branch_run(run, 4, tmp_path / name, {}) == tmp_path / name
    events = Events()
    with one_thread():
        resume_tiny(tmp_path / "same")
        finished = resume_run(tmp_path / "longer", events.append, lambda: False, {"train": {"steps": 20}})
    assert contents(run) == before
    old, new = what_is_left(run), what_is_left(tmp_path / "same")
    for name in ("weights 12", "moments 12", "best"):
        assert same(old[name], new[name]), name
    reports = [[line for line in left["metrics"] if line["event"] == "step"] for left in (old, new)]
    assert reports[0] == reports[1]
    assert (finished.reason, finished.step) == ("done", 20)
    assert events.of(TrainingStarted)[0].step == 4
    recipe = load_recorded(tmp_path / "longer" / "recipe.toml")
    rates = [event.learning_rate for event in events.of(StepsDone)]
    assert rates == [learning_rate(step, recipe.train) for step in range(5, 21)]
    assert rates[:6] == [recipe.train.learning_rate] * 6, "10 of 20 steps are at the peak"
    [branched, longer] = read_history(tmp_path / "longer" / "metrics.jsonl").changes
    assert (branched.key, branched.from_) == ("run", str(RunDirectory(run).checkpoint(4)))
    assert (longer.key, longer.to) == ("train.steps", 20)
    ids = {read_json(path / "config.json")["run_id"] for path in (run, tmp_path / "same")}
    assert len(ids) == 2


def test_a_branch_of_the_end_goes_on_at_the_last_rate(run: Path, tmp_path: Path):
    branch_run(run, 12, tmp_path / "new", {"train": {"steps": 14}})
    assert same(*(weights(folder / "model.safetensors") for folder in (run, tmp_path / "new")))
    events = Events()
    resume_run(tmp_path / "new", events.append, lambda: False, {"train": {"steps": 14}})
    last = learning_rate(12, load_recorded(run / "recipe.toml").train)
    assert [event.learning_rate for event in events.of(StepsDone)] == [last] * 2


def test_what_was_changed_behind_the_checkpoint_is_no_part_of_the_branch(run: Path, tmp_path: Path):
    shutil.copytree(run, tmp_path / "run")
    resume_run(tmp_path / "run", lambda event: None, lambda: False, {"train": {"steps": 14}})
    assert load_recorded(tmp_path / "run" / "recipe.toml").train.schedule_steps == 12
    branch_run(tmp_path / "run", 4, tmp_path / "new", {"train": {"steps": 20}})
    assert load_recorded(tmp_path / "new" / "recipe.toml") == load_recorded(run / "recipe.toml")
    [branched] = read_history(tmp_path / "new" / "metrics.jsonl").changes
    assert branched.key == "run"


@pytest.mark.parametrize(
    ("step", "settings", "words"),
    [
        (8, {}, "has no checkpoint of step 8; it has: 4, 12"),
        (12, {}, "finished at step 12, and there is nothing left to train"),
        (4, {"train": {"steps": 3}}, "train.steps = 3 is less than the 4 steps that are done"),
        (4, {"train": {"seed": 3}}, "it would be another one"),
    ],
)
def test_what_cannot_be_branched_leaves_nothing(run: Path, tmp_path: Path, step: int, settings: Settings, words: str):
    before = contents(run)
    with pytest.raises(UsageError, match=words):
        branch_run(run, step, tmp_path / "new", settings)
    assert not (tmp_path / "new").exists()
    assert contents(run) == before


def test_the_command_line_branches(run: Path, tmp_path: Path):
    command = ["train", "--resume", str(run), "--checkpoint", "4", "--out", str(tmp_path / "new")]
    done = CliRunner().invoke(app, [*command, "--set", "train.steps=8"])
    assert done.exit_code == 0, done.output
    assert load_recorded(tmp_path / "new" / "recipe.toml").train.steps == 8
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert "holds a run already" in again.output
    alone = CliRunner().invoke(app, ["train", "--checkpoint", "4"])
    assert (alone.exit_code, "--resume RUN" in alone.output) == (2, True)
