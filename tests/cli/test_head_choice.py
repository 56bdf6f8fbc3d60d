"""One form for a head of a run, LAYER.HEAD, on the command line, in recipes and in Python."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tfcli as api
from tests.cli.commands import tfcli
from tests.support.runs import tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.recipe.loading import build_recipe, parse_assignments, read_toml, to_toml

COMMANDS = {
    "attention": ("inspect", "attention", "RUN", "Tom swam"),
    "heads": ("inspect", "heads", "RUN", "Tom swam"),
    "explain": ("explain", "attention", "Tom swam", "--run", "RUN"),
    "masking": ("explain", "masking", "Tom swam", "--run", "RUN"),
}


def words(name: str, run: Path) -> list[str]:
    return [str(run) if word == "RUN" else word for word in COMMANDS[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_layer_and_head_in_one_word_or_in_two_options_are_the_same(trained: Callable[[str], Path], name: str) -> None:
    run = trained("decoder")
    shown = [
        tfcli(*words(name, run), *choice, "--json")
        for choice in (("--head", "1.0"), ("--layer", "1", "--head", "0"), ("--layer", "1", "--head", "1.0"))
    ]
    assert [one.exit_code for one in shown] == [0] * 3, shown[0].stderr
    assert shown[0].stdout == shown[1].stdout == shown[2].stdout
    assert tfcli(*words(name, run), "--head", "1.1", "--json").stdout != shown[0].stdout


REFUSED = {
    ("--head", "1.9"): "There is no head 1.9: layer 1 has heads 0 to 1; write for example --head 1.1.",
    ("--head", "1.10"): "There is no head 1.10: layer 1 has heads 0 to 1; write for example --head 1.1.",
    ("--head", "2.0"): "There is no layer 2: the model has 2; choose 0 to 1.",
    ("--head", "1"): "--head 1 names no layer, and the model has 2 layers; write LAYER.HEAD, such as --head 0.1.",
    ("--head", "one"): "--head one is not a head; write LAYER.HEAD, both counted from 0, such as --head 1.0.",
    ("--layer", "0", "--head", "1.0"): "--layer 0 and --head 1.0 name two layers; leave --layer out.",
}


@pytest.mark.parametrize("choice", REFUSED, ids=" ".join)
@pytest.mark.parametrize("name", [*COMMANDS, "circuits"])
def test_what_is_not_there_is_refused_alike(trained: Callable[[str], Path], name: str, choice: tuple[str, ...]) -> None:
    command = words(name, trained("decoder")) if name in COMMANDS else ["inspect", "circuits", str(trained("decoder"))]
    if name == "circuits" and "--layer" in choice:
        return  # which has no --layer
    done = tfcli(*command, *choice)
    assert (done.exit_code, done.stdout) == (2, "")
    assert REFUSED[choice] in " ".join(done.stderr.split())


def test_a_model_of_one_layer_needs_no_layer(tmp_path: Path) -> None:
    train_tiny(tiny_recipe("decoder", {"model": {"num_layers": 1}}), tmp_path / "run")
    command = ("inspect", "attention", tmp_path / "run", "Tom", "--json", "--head")
    alone, whole = (tfcli(*command, head) for head in ("1", "0.1"))
    assert alone.exit_code == 0 and json.loads(alone.stdout) == json.loads(whole.stdout)
    assert len(json.loads(alone.stdout)["records"][0]["weights"]) == 1


def test_a_toy_has_no_layers_and_counts_its_heads() -> None:
    refused = tfcli("explain", "attention", "Tom swam", "--head", "1.0")
    assert refused.exit_code == 2
    assert "--head 1.0 names a layer, and only a run has several; write --head 0" in refused.stderr
    assert "head 1 is --head 0)" in " ".join(tfcli("explain", "attention", "Tom swam").stdout.split())


def test_the_head_of_a_run_s_page_is_named_as_it_is_typed(trained: Callable[[str], Path]) -> None:
    shown = tfcli("explain", "attention", "Tom swam", "--run", trained("decoder"), "--head", "1.1").stdout
    assert "head 1 is --head 1.0)" in " ".join(shown.split())


def test_python_takes_the_same(trained: Callable[[str], Path]) -> None:
    run = api.load_run(trained("decoder"))
    [whole] = api.attention(run, "Tom swam")
    for choice in ({"head": "1.1"}, {"layer": 1, "head": 1}, {"layer": 1, "head": "1"}):
        [record] = api.attention(run, "Tom swam", **choice)
        assert (record.weights == whole.weights[1:2, 1:2]).all()
    with pytest.raises(UsageError, match=r"head = 1\.1 is a number"):
        api.attention(run, "Tom swam", head=1.1)
    with pytest.raises(UsageError, match=r"--head 1 names no layer"):
        api.attention(run, "Tom swam", head=1)


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ('head = "1.0"', (1, 0)),
        ("head = 1.0", (1, 0)),
        ("head = 1.10", (1, 10)),
        ("layer = 1\nhead = 2", (1, 2)),
        ("head = 2", (None, 2)),
        ("layer = 1", (1, None)),
    ],
)
def test_a_recipe_has_it_quoted_or_not_and_old_recipes_mean_what_they_meant(
    tmp_path: Path, written: str, place: tuple[int | None, int | None]
) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(f"[inspect]\n{written}\n")
    recipe = build_recipe(read_toml(file))
    assert recipe.inspect.place == place
    file.write_text(to_toml(recipe))
    assert build_recipe(read_toml(file)) == recipe


def test_set_takes_it_unquoted() -> None:
    for head, place in (("1.10", (1, 10)), ('"1.1"', (1, 1)), ("3", (None, 3))):
        assert build_recipe(parse_assignments([f"inspect.head={head}"])).inspect.place == place


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"head": "x"},
            'inspect.head = "x" is not a head; write LAYER.HEAD, both counted from 0, such as inspect.head',
        ),
        ({"layer": 0, "head": "1.0"}, 'inspect.layer = 0 and inspect.head = "1.0" name two layers'),
        ({"head": -1}, "inspect.head = -1 is out of range; it must be at least 0"),
    ],
)
def test_a_recipe_that_names_no_head_is_refused(section: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        build_recipe({"inspect": section})
    assert message in str(refused.value)


@pytest.mark.parametrize("head", ["0.9", "9.0"])
def test_a_dry_run_refuses_a_head_that_the_model_will_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tfcli("run", "quickstart", "--dry-run", "--set", f"inspect.head={head}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tfcli: There is no ")
