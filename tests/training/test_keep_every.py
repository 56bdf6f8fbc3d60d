"""Checkpoints that are kept to be looked at: which, what they hold, and that training does not change by them."""

import json
from pathlib import Path

import pytest

from tests.support.left import require_equal, what_is_left
from tests.support.runs import Settings, resume_tiny, same, stop_after, tiny_recipe, train_tiny, weights
from tfcli.errors import UsageError
from tfcli.pipeline.training import branch_run
from tfcli.planning.plan import outline
from tfcli.recipe.train import TrainSection
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.training.checkpoint import checkpoints_to_keep, weights_to_keep
from tfcli.training.job import resolve_for_machine

EVERY: Settings = {"train": {"keep_every": 3, "save_every": 4, "keep_checkpoints": 2}}


@pytest.mark.parametrize(
    ("steps", "whole", "of_weights"),
    [
        ({0, 3, 4, 6, 8}, {4, 8}, {0, 3, 6}),
        ({0, 3, 6, 8, 9}, {8, 9}, {0, 3, 6}),
        ({0, 3, 5}, {0, 5}, {3}),  # an interruption at 5, which goes with the next
        ({0, 3, 5, 6}, {0, 6}, {3}),
    ],
)
def test_every_third_step_is_kept_beside_the_last_ones(steps: set[int], whole: set[int], of_weights: set[int]):
    section = TrainSection(keep_every=3, save_every=4, keep_checkpoints=2)
    assert checkpoints_to_keep(steps, section) == whole
    assert weights_to_keep(steps, section) == of_weights


def test_a_run_keeps_every_third_steps_weights_and_trains_as_without(tmp_path: Path):
    """Of 12 steps saved every 4th: 8 and 12 are whole; 4 is gone, and 0, 3, 6 and 9 have weights alone."""
    kept, plain = tmp_path / "kept", tmp_path / "plain"
    train_tiny(tiny_recipe("decoder", EVERY), kept)
    train_tiny(tiny_recipe("decoder"), plain)
    folders = RunDirectory(kept).checkpoints()
    assert {step: (folder / "optimizer.safetensors").is_file() for step, folder in folders.items()} == {
        **dict.fromkeys((0, 3, 6, 9), False),
        **dict.fromkeys((8, 12), True),
    }
    ours, theirs = (weights(RunDirectory(run).checkpoint(12) / "model.safetensors") for run in (kept, plain))
    assert same(ours, theirs)
    loaded = {name: tensor.detach() for name, tensor in load_run(kept, "3").model.named_parameters()}
    assert same(loaded, weights(folders[3] / "model.safetensors"))
    assert not same(loaded, weights(folders[6] / "model.safetensors"))


def test_an_old_recipe_has_no_line_for_it(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", {"train": {"steps": 1}}), tmp_path / "run")
    assert "keep_every" not in (tmp_path / "run/recipe.toml").read_text()
    state = json.loads((RunDirectory(tmp_path / "run").checkpoint(1) / "state.json").read_text())
    assert "keep_every" not in state["belongs_to"]["recipe"]["train"]


def test_a_resumed_run_keeps_what_the_unbroken_one_does(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", EVERY), tmp_path / "unbroken")
    for stopped in (2, 3, 7):
        run = tmp_path / f"stopped-{stopped}"
        train_tiny(tiny_recipe("decoder", EVERY), run, stop=stop_after(stopped))
        resume_tiny(run)
        require_equal(what_is_left(run), what_is_left(tmp_path / "unbroken"))


def test_no_training_goes_on_from_weights_alone(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", EVERY), tmp_path / "run")
    with pytest.raises(UsageError, match=r"step 6 holds weights alone \(train.keep_every\).*go on from step 12"):
        branch_run(tmp_path / "run", 6, tmp_path / "new", {"train": {"steps": 20}})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_what_a_plan_says_of_the_size_is_what_is_there(tmp_path: Path, average: float):
    recipe = tiny_recipe("decoder", EVERY, {"train": {"ema_decay": average}, "model": {"d_model": 64}})
    train_tiny(recipe, tmp_path / "run")
    run = load_run(tmp_path / "run")
    told = outline(resolve_for_machine(run.recipe), vocab_size_is_most=False)
    assert told.checkpoints == (2, 4)
    files = (run.directory.path / "checkpoints").rglob("*.safetensors")
    assert told.checkpoint_bytes == pytest.approx(sum(file.stat().st_size for file in files), rel=0.05)
