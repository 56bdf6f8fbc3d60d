"""The shipped recipes: listed, shown, and each run to its end on a small scale."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.commands import PLAIN, SHRUNK, snapshot, tfcli
from tests.support.runs import stop_after
from tfcli.console.settings import Asked, recipe_from
from tfcli.pipeline.training import earlier_run, train_recipe
from tfcli.recipe.loading import read_toml
from tfcli.recipe.recipe import known_keys
from tfcli.recipe.shipped import shipped_recipes
from tfcli.runs.directory import RunDirectory, held

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


@pytest.mark.parametrize(
    "command", ["run shakespeare-char", "train --recipe shakespeare-char", "run shakespeare-char --dry-run"]
)
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


@pytest.mark.parametrize("word", ["lr", "learning-rate", "train.learning_rate"])
def test_a_key_is_found_by_its_name_here_and_elsewhere(word: str):
    result = tfcli("recipes", "keys", word)
    assert result.stdout.startswith(
        "train.learning_rate = 0.003   number > 0\n    Peak of the learning-rate schedule.\n    Elsewhere: lr, "
    )


def test_keys_have_their_unit_values_default_and_papers():
    [scale] = [json.loads(line) for line in tfcli("recipes", "keys", "token_types", "--json").stdout.splitlines()]
    assert (scale["name"], scale["default"], scale["unit"]) == ("model.token_types", 0, "rows")
    assert scale["kinds"] == ["whole number ≥ 0, ≤ 16777216 (rows)"]
    assert scale["sources"] == ["Devlin et al. 2019, 3"]
    by_meaning = [
        json.loads(line)["name"] for line in tfcli("recipes", "keys", "Shazeer", "--json").stdout.splitlines()
    ]
    assert by_meaning == ["model.activation"]
    every = [json.loads(line)["name"] for line in tfcli("recipes", "keys", "--json").stdout.splitlines()]
    assert every == known_keys()


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_keys_fit_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PLAIN, "COLUMNS", str(columns))
    lines = tfcli("recipes", "keys").stdout.splitlines()
    assert columns - 20 < max(map(len, lines)) <= columns
    assert len([line for line in lines if not line.startswith(" ")]) == len(known_keys())


def test_a_word_that_no_key_has_is_refused_with_the_nearest():
    for word, remedy in (("d_modle", "did you mean d_model."), ("xyzzy", "see them all with `tfcli recipes keys`.")):
        result = tfcli("recipes", "keys", word)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"tfcli: No recipe key has '{word}' in its name or meaning; {remedy}\n"


def test_check_fails_where_a_limit_is_missed_and_passes_where_it_is_met(texts: None):
    small = ["run", "quickstart", *SHRUNK, "--out", "run", "--quiet", "--check"]

    missed = tfcli(*small, "--set", "check.max_loss=0.001")
    assert missed.exit_code == 1
    assert "missed its limit on max_loss" in missed.stderr

    met = tfcli(*[word for word in small if word != "--quiet"], "--set", "check.max_loss=1000")
    assert met.exit_code == 0
    assert "max_loss" in met.stdout
    _the_end_leads_on(met.stdout, met.stderr)


def _the_end_leads_on(shown: str, said: str) -> None:
    """The story and then the attention stand last, and the commands behind them run as they stand."""
    assert shown.index("Positions") < shown.index("log-probability") < shown.index("Attention weights")
    commands = [shlex.split(line) for line in said.partition("Try:\n")[2].splitlines()]
    assert [" ".join(words[:3]) for words in commands] == [
        "tfcli generate run",
        "tfcli inspect attention",
        "tfcli inspect heads",
        "tfcli explore run",
    ]
    assert "Tom hoped to find the lost notes, so he ran across the wide field to the bank" in commands[1]
    for words in commands[:3]:
        result = tfcli(*words[1:])
        assert (result.exit_code, bool(result.stdout)) == (0, True), result.stderr
    assert "tfcli explore needs a terminal" in tfcli(*commands[3][1:]).stderr, "and nothing else is wrong with it"


def test_a_recipe_that_was_run_is_shown_again_and_trained_anew_where_asked(texts: None):
    small = ["run", "quickstart", *SHRUNK]
    first = tfcli(*small)
    assert [path.name for path in Path("runs").iterdir()] == ["quickstart-1"]
    before = snapshot(Path("runs"))
    second = tfcli(*small)
    assert (second.exit_code, second.stdout) == (0, first.stdout), "the same figures, sample and pictures"
    assert "Training  runs/quickstart-1 · unchanged, reused" in second.stderr
    [said] = [line for line in second.stderr.splitlines() if "is of this recipe, trained on " in line]
    assert re.match(
        r"runs/quickstart-1 is of this recipe, trained on 20\d\d-\d\d-\d\d at \d\d:\d\d; to train anew: ", said
    )
    assert f"`{shlex.join(['tfcli', *small])} --again`" in said
    assert snapshot(Path("runs")) == before
    would = tfcli(*small, "--dry-run")
    assert would.exit_code == 0
    assert "runs/quickstart-1 is of this recipe, and would be shown" in would.stderr
    assert "part " in would.stdout

    refused = tfcli(*small, "--again", "--out", "runs/quickstart-1")
    assert refused.exit_code == 2
    assert "--again trains anew, and 'runs/quickstart-1' holds a run already" in refused.stderr
    assert tfcli(*small, "--again", "--quiet").exit_code == 0
    assert {path.name for path in Path("runs").iterdir()} == {"quickstart-1", "quickstart-2"}
    assert {name: was for name, was in snapshot(Path("runs")).items() if name in before} == before


def test_an_interrupted_recipe_goes_on_by_the_same_command(texts: None):
    given = [*SHRUNK, "--set", "data.source=text.txt"]
    settings = recipe_from(Asked(assignments=[word for word in given if word != "--set"]), "quickstart")
    assert train_recipe(settings, None, lambda event: None, stop_after(2)).reason == "interrupted"
    with held(RunDirectory(Path("runs/quickstart-1"))):
        refused = tfcli("run", "quickstart", *given)
    assert refused.exit_code == 2
    assert "Another process trains runs/quickstart-1 by this recipe now; wait until it has ended" in refused.stderr
    result = tfcli("run", "quickstart", *given)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("runs/quickstart-1 was interrupted, and goes on; to train anew: `tfcli run")
    assert "step 3" in result.stderr
    assert [path.name for path in Path("runs").iterdir()] == ["quickstart-1"]

    with Path("text.txt").open("a") as file:
        file.write("More.\n")
    assert earlier_run(settings) is None, "the text is another one"
    Path("text.txt").write_text("Tom swam across the river to the bank.\n" * 60)
    assert earlier_run(settings) == (RunDirectory(Path("runs/quickstart-1")), "done")
    assert earlier_run(recipe_from(Asked(assignments=["data.source=-"]), "quickstart")) is None
