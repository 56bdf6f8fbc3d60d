"""``tfcli inspect heads --find``."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


def test_an_alignment_as_json(trained: Callable[[str], Path]):
    result = tfcli("inspect", "heads", trained("encoder-decoder"), "--find", "alignment", "--json")
    found = json.loads(result.stdout)
    assert found["head"]["kind"] == "cross"
    assert (found["training_pairs"], found["held_out_pairs"], len(found["examples"])) == (200, 300, 3)
    assert 0 < found["held_out"]["hits"] < found["held_out"]["count"]


def test_a_head_that_is_named_is_measured_and_a_layer_is_searched(trained: Callable[[str], Path], tmp_path: Path):
    """Both spellings of a head; CSV and files hold the same."""
    run = trained("encoder-decoder")
    picture = tmp_path / "found.svg"
    spelled = [("--head", "0.1"), ("--layer", "0", "--head", "1", "--svg", picture)]
    tables = [tfcli("inspect", "heads", run, "--find", "alignment", *head, "--csv").stdout for head in spelled]
    rows = list(csv.DictReader(io.StringIO(tables[0])))
    assert {(row["kind"], row["layer"], row["head"]) for row in rows} == {("cross", "0", "1")}
    assert tables[0] == tables[1]
    assert "Which head aligns words" in picture.read_text().replace("\xa0", " ").replace("&#160;", " ")
    best = {}
    for layer in (0, 1):
        found = json.loads(tfcli("inspect", "heads", run, "--find", "alignment", f"--layer={layer}", "--json").stdout)
        assert found["head"]["layer"] == layer
        best[layer] = found["training"]["hits"]
    every = json.loads(tfcli("inspect", "heads", run, "--find", "alignment", "--json").stdout)
    assert every["training"]["hits"] == max(best.values())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["Tom", "--find", "bank"], "--find chooses its texts itself; leave TEXT or --find out"),
        (["--sort", "entropy", "--find", "bank"], "leave --sort or --find out"),
        (["--find", "alignment"], "this decoder has one; name a run of the recipe pt-en"),
        (
            ["--find", "bank", "--head", "0"],
            "--head 0 names no layer, and the model has 2 layers; write LAYER.HEAD, such as --head 0.0",
        ),
        (["--find", "bank", "--head", "7.0"], "There is no layer 7: the model has 2; choose 0 to 1"),
        (["--layer", "1", "--head", "0.0"], "--layer 1 and --head 0.0 name two layers; leave --layer out"),
    ],
    ids=["text", "sort", "architecture", "head", "no such head", "two layers"],
)
def test_what_does_not_go_together_is_refused(trained: Callable[[str], Path], arguments: list[str], problem: str):
    refused = tfcli("inspect", "heads", trained("decoder"), *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert problem in refused.stderr


def test_attention_without_a_text_is_refused(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "attention", trained("decoder"))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "There is no TEXT to read" in refused.stderr
