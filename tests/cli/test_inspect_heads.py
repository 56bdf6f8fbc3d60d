"""``tfcli inspect heads``."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli

STORY = "Tom swam across the river. Mia ran to the old house near the road. "


def test_every_form_names_every_head(trained: Callable[[str], Path], tmp_path: Path):
    command = ("inspect", "heads", trained("decoder"))
    shown = tfcli(*command)
    assert shown.exit_code == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert "of the validation part of builtin:stories (seed 0)" in text
    assert "roles were chosen on one half of them and measured on the other" in text
    # Once with its role and its sentence, once with its figures.
    assert [shown.stdout.count(f"\n{layer}.{head} ") for layer in (0, 1) for head in (0, 1)] == [2, 2, 2, 2]
    assert text.count("«") == text.count("[") == 5
    found = json.loads(tfcli(*command, "--json").stdout)
    assert [(head["layer"], head["head"]) for head in found["heads"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (found["repeated"], found["chosen_apart"]) == (15, True)
    assert {"role", "share", "low", "high", "chance", "rows", "coverage"} == set(found["heads"][0]["shares"][0])
    svg = tmp_path / "heads.svg"
    rows = tfcli(*command, "Tom swam", "--csv", "--svg", svg).stdout.splitlines()
    assert len(rows) == 5
    assert rows[1].startswith("decoder_self,0,0,")
    assert "Attention heads" in svg.read_text()


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_the_command_that_shows_a_head_runs_as_it_stands(trained: Callable[[str], Path], architecture: str):
    run = trained(architecture)
    told = tfcli("inspect", "heads", run, "--head", "1.0", "--checkpoint", "last")
    assert told.exit_code == 0, told.stderr
    [see, *find] = [line for line in told.stdout.splitlines() if ": tfcli " in line]
    assert len(find) == (architecture == "encoder-decoder")
    assert all("--find alignment --checkpoint last" in line for line in find)
    name, command = see.split(": ", 1)
    shown = tfcli(*shlex.split(command)[1:])
    assert name == "See 1.0" and "--checkpoint last -- " in command and shown.exit_code == 0, shown.stderr
    assert "layer 1, head 0" in shown.stdout


def test_another_source(trained: Callable[[str], Path], tmp_path: Path):
    own = tmp_path / "own.txt"
    own.write_text(STORY * 20)
    told = tfcli("inspect", "heads", trained("decoder"), "--on", own, "--json")
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["measured_on"] == f"42 pieces of up to 32 tokens of {own}"
    refused = tfcli("inspect", "heads", trained("decoder"), "Tom", "--on", own)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "A TEXT and --on are two things to measure on; leave one of them out" in refused.stderr


def test_a_run_without_a_text_of_its_own_is_measured_on_the_built_in_one(
    trained: Callable[[str], Path], tmp_path: Path
):
    imported = tmp_path / "imported"
    shutil.copytree(trained("decoder"), imported)
    recipe = imported / "recipe.toml"
    recipe.write_text(f'{recipe.read_text()}\n[origin]\nsource = "/there"\nlayout = "llama"\n')
    told = tfcli("inspect", "heads", imported)
    assert told.exit_code == 0, told.stderr
    assert "of builtin:stories (seed 0)" in " ".join(told.stdout.split())
    assert (
        "was imported and has no text of its own: measured on builtin:stories; --on SOURCE measures on your own"
        in told.stderr
    )


def test_sorted_by_a_column(trained: Callable[[str], Path]):
    command = ("inspect", "heads", trained("encoder"), "Tom swam to the bank")
    heads = json.loads(tfcli(*command, "--json").stdout)["heads"]
    values = {f"{head['layer']}.{head['head']}": head["entropy"] for head in heads}
    shown = [line[:3] for line in tfcli(*command, "--sort", "entropy").stdout.splitlines()]
    order = [name for name in shown if name in values]
    assert order == 2 * sorted(values, key=lambda name: -values[name])


def test_a_text_and_its_target(trained: Callable[[str], Path]):
    shown = tfcli("inspect", "heads", trained("encoder-decoder"), "O gato", "--target", "The cat", "--kind", "cross")
    assert "measured on the text" in shown.stdout
    assert "cross-attention" in shown.stdout and "encoder self-attention" not in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--sort", "size"), "--sort 'size' is not one of role, layer, previous"),
        (("--head", "3"), "--head 3 names no layer, and the model has 2 layers; write LAYER.HEAD, such as --head 0.1"),
        (("--head", "4.0"), "There is no layer 4: the model has 2; choose 0 to 1"),
        (
            ("--head", "0.9", "--on", "missing.txt"),
            "There is no head 0.9: layer 0 has heads 0 to 1; write for example --head 0.1",
        ),
        (("--kind", "cross", "--on", "missing.txt"), "This decoder has no cross attention"),
        (("--target", "Tom"), "--target belongs to a TEXT"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(
    trained: Callable[[str], Path], arguments: tuple[str, ...], problem: str
):
    refused = tfcli("inspect", "heads", trained("decoder"), *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert problem in refused.stderr


def test_where_no_query_has_a_next_token_there_is_no_share_and_no_warning(
    trained: Callable[[str], Path], recwarn: pytest.WarningsRecorder
):
    told = tfcli("inspect", "heads", trained("encoder-decoder"), "o", "--target", "the", "--json")
    assert told.exit_code == 0, told.stderr
    heads = [head for head in json.loads(told.stdout)["heads"] if head["kind"] == "encoder_self"]
    assert "3 tokens after" not in {one["role"] for head in heads for one in head["shares"]}
    assert [str(one.message) for one in recwarn] == []
