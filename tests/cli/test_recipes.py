"""The shipped recipes: listed, shown, and each run to its end on a small scale."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import SHRUNK, tfcli
from tfcli.recipe.loading import read_toml
from tfcli.recipe.shipped import shipped_recipes

PAIRS = [(f"O gato {n} dorme.", f"Cat {n} sleeps.") for n in range(60)]


@pytest.fixture
def texts(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files for the recipes that take their text as data.source."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("Tom swam across the river to the bank.\n" * 60)
    for part in ("train", "dev"):
        for side, language in enumerate(("pt", "en")):
            Path(f"{part}.{language}").write_text("".join(pair[side] + "\n" for pair in PAIRS))


def own_text(settings: dict[str, dict[str, str]]) -> list[str]:
    """What a recipe needs that does not bring its own text."""
    data = settings.get("data", {})
    if str(data.get("source", "")).startswith("builtin:"):
        return []
    if settings["model"]["architecture"] != "encoder-decoder":
        return ["--set", "data.source=text.txt"]
    return ["--set", "data.source=train.pt,train.en", "--set", "data.validation=dev.pt,dev.en"]


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_runs_shrunk(name: str, texts: None):
    settings = read_toml(shipped_recipes()[name])

    result = tfcli("run", name, *SHRUNK, *own_text(settings), "--out", "run", "--json")

    assert result.exit_code == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "stage"
    assert {"tokenizer", "dataset", "started", "step", "evaluated", "saved", "finished", "scores"} <= set(kinds)
    stages = [event["stage"] for event in events if event["event"] == "stage"]
    assert stages[:4] == ["tokenizer", "data", "training", "evaluation"]
    assert ("attention" in kinds) == ("attention" in settings.get("inspect", {}))


@pytest.mark.parametrize("command", ["run shakespeare-char", "train --recipe shakespeare-char"])
def test_a_recipe_without_its_text_says_how_to_give_it(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = tfcli(*command.split())
    assert result.exit_code == 2
    assert result.stderr == (
        "tfcli: The recipe shakespeare-char needs your own text, and there is no file 'input.txt'; "
        "give it with `--set data.source=FILE`.\n"
    )
    assert list(tmp_path.iterdir()) == []
    # A file that the user named himself is missed in the usual words.
    named = tfcli(*command.split(), "--set", "data.source=mine.txt")
    assert "mine.txt" in named.stderr
    assert "give it with" not in named.stderr


def test_dates_of_a_recipe_are_text_in_json(tmp_path: Path):
    path = tmp_path / "dated.toml"
    path.write_text("[result]\ndate = 2026-11-20\n")
    assert json.loads(tfcli("recipes", "show", path, "--json").stdout) == {"result": {"date": "2026-11-20"}}


def test_check_wants_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text('name = "mine"\n')
    result = tfcli("run", "mine.toml", "--check")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "The recipe mine.toml has no [check] limits; leave --check out" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_the_list_names_and_describes_every_recipe():
    lines = tfcli("recipes", "list").stdout.splitlines()
    for name, path in shipped_recipes().items():
        [line] = [line for line in lines if line.startswith(f"{name} ")]
        assert read_toml(path)["description"] in line
    listed = [json.loads(line) for line in tfcli("recipes", "list", "--json").stdout.splitlines()]
    assert [one["name"] for one in listed] == list(shipped_recipes())


def test_a_shown_recipe_is_the_file_itself():
    for name, path in shipped_recipes().items():
        assert tfcli("recipes", "show", name).stdout == path.read_text(encoding="utf-8")


def test_check_fails_where_a_limit_is_missed_and_passes_where_it_is_met(texts: None):
    small = ["run", "quickstart", *SHRUNK, "--out", "run", "--quiet", "--check"]

    missed = tfcli(*small, "--set", "check.max_loss=0.001")
    assert missed.exit_code == 1
    assert "missed its limit on max_loss" in missed.stderr

    met = tfcli(*small, "--set", "check.max_loss=1000")
    assert met.exit_code == 0
    assert "max_loss" in met.stdout
