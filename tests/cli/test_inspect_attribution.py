"""`inspect attribution`, from the command line."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


def test_the_forms_say_the_same(trained: Callable[[str], Path], tmp_path: Path):
    svg = tmp_path / "parts.svg"
    command = ("inspect", "attribution", trained("decoder"), "Tom s", "--token", "w", "--against", "a")
    shown = json.loads(tfcli(*command, "--svg", svg, "--json").stdout)
    assert shown.keys() == {
        "threads",
        *("tokens", "position", "token", "probability", "rank", "against", "best", "logit", "parts", "gated"),
    }
    assert (shown["token"], shown["against"], shown["position"]) == ("w", "a", 5)
    assert shown["parts"][0]["part"] == {"kind": "token", "layer": None, "head": None}
    values = [one["value"] for one in shown["parts"]]
    assert len(values) == 1 + 2 * (2 + 1)
    assert sum(values) == pytest.approx(shown["logit"], abs=1e-4)
    rows = list(csv.DictReader(tfcli(*command, "--csv").stdout.splitlines()))
    assert [float(row["value"]) for row in rows] == values
    assert "Direct logit attribution" in svg.read_text()
    assert f"the model's own difference of the logits {shown['logit']:+.4f}" in tfcli(*command).stdout


def test_a_token_that_is_none(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "attribution", trained("decoder"), "Tom", "--token", "swam")
    assert refused.exit_code == 2
    assert "'swam' is 4 tokens" in refused.stderr and len(refused.stderr.splitlines()) == 1


def test_tokens_that_are_read(trained: Callable[[str], Path], tmp_path: Path):
    svg, page = tmp_path / "tokens.svg", tmp_path / "tokens.html"
    command = ("inspect", "attribution", trained("encoder-decoder"), "o gato", "--target", "the cat", "--position", "1")
    shown = json.loads(tfcli(*command, "--method", "all", "--svg", svg, "--html", page, "--json").stdout)
    assert shown["methods"] == ["gradient", "integrated-gradients", "occlusion", "rollout", "value-weighted"]
    assert shown["sides"] == ["source"] * 3 + ["target"] * 2
    assert shown["direct"]["position"] == 1 and len(shown["direct"]["parts"]) > 4
    assert [len(row) for row in shown["values"]] == [5] * 5
    assert sum(shown["values"][3]) == pytest.approx(1) and shown["values"][2][3] is None
    assert shown["gaps"][-1] <= 0.01
    assert "Input attribution" in svg.read_text() and "Insertion" in page.read_text()
    rows = list(csv.DictReader(tfcli(*command, "--method", "occlusion", "--csv").stdout.splitlines()))
    assert [float(row["occlusion"]) for row in rows if row["occlusion"]] == [
        one for one in shown["values"][2] if one is not None
    ]
    picture = tfcli(*command, "--method", "integrated-gradients", "--token", "the", "--against", ".").stdout
    assert "F = logit of the − logit of ." in picture and "steps." in picture and "rollout" not in picture


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--method", "lime"), "'lime' is not one of 'direct', 'gradient'"),
        (("--method", "all", "--position", "0"), "Position 0 is predicted from special tokens alone; choose a later"),
        (("--token", "a", "--against", "a"), "Both answers are 'a'; name two that differ with --token and --against"),
    ],
)
def test_what_is_refused(trained: Callable[[str], Path], words: tuple[str, ...], sentence: str):
    refused = tfcli("inspect", "attribution", trained("decoder"), "Tom", *words)
    assert refused.exit_code == 2 and refused.stdout == ""
    assert sentence in refused.stderr and len(refused.stderr.splitlines()) == 1
