"""`tfcli plan` as it is typed."""

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from tfcli.planning import Candidate
from tfcli.planning import command as plan
from tfcli.recipe.loading import build_recipe, read_toml

from .commands import tfcli


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--minutes", "0"], "--minutes 0 leaves no time"),
        (["--minutes", "-3"], "--minutes -3 leaves no time"),
        (["--minutes", "nan"], "--minutes nan leaves no time"),
        (["--minutes", "1", "nowhere.txt"], "nowhere.txt"),
        (["--minutes", "1", "--device", "mps"], "There is no mps device"),
        (["--minutes", "1", "--set", "model.head=none", "--arch", "encoder"], "head"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_any_work(arguments: list[str], said: str):
    result = tfcli("plan", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr and "Traceback" not in result.stderr
    assert result.stdout == ""


def test_what_has_an_option_is_written_by_it():
    chosen = Candidate("tiny", 10, 128, 4096, 1e-3, 50, 5, 10**5, 1e3, 1.0, 10**5, 60.0, 10**8, fits=True)
    written = shlex.join(plan._written(SimpleNamespace(chosen=chosen, max_documents=7)))
    assert written.startswith("--steps 50 --set data.max_documents=7 --set train.batch_tokens=4096 --set train.warmup_")


@pytest.mark.slow
def test_a_plan_is_a_recipe_that_train_takes(tmp_path: Path):
    file = tmp_path / "plan.toml"
    words = ["--set", "data.max_documents=300", "--set", "train.context=16", "--out", file, "--threads", "1", "--json"]
    result = tfcli("plan", "--minutes", "0.5", "--device", "cpu", *words)
    assert result.exit_code == 0, result.stderr
    planned = json.loads(result.stdout)
    assert planned["command"] == f"tfcli train --recipe {file}"
    assert planned["chosen"]["seconds"] <= 30
    recipe = build_recipe(read_toml(file))
    assert recipe.train.steps == planned["chosen"]["steps"]
    assert recipe.train.batch_size == planned["chosen"]["batch_size"]
    assert tfcli("train", "--recipe", file, "--dry-run").exit_code == 0


@pytest.mark.slow
def test_too_little_time_says_how_much_it_takes(tmp_path: Path):
    result = tfcli("plan", "--minutes", "0.001", "--set", "data.max_documents=300", "--device", "cpu", "--threads", "1")
    assert result.exit_code == 2
    assert "too short for any training" in result.stderr and "the smallest takes --minutes" in result.stderr
