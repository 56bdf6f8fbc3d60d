"""`tfcli explain decoding`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


def test_the_draws_are_those_of_generate(trained: Callable[[str], Path]):
    run = trained("decoder")
    drawing = ("--temperature", "0.8", "--top-k", "10", "--top-p", "0.9", "--seed", "7")
    explained = json.loads(tfcli("explain", "decoding", "Tom", "--run", run, *drawing, "--steps", "5", "--json").stdout)
    generated = json.loads(tfcli("generate", run, "Tom", *drawing, "--max-new-tokens", "5", "--json").stdout)
    assert [step["token_id"] for step in explained["steps"]] == generated["token_ids"]


def test_a_toy_in_all_forms(tmp_path: Path):
    picture = tmp_path / "picture.svg"
    shown = tfcli("explain", "decoding", "--svg", picture)
    assert "u = 0.8806 lies in [0.8000, 1.0000): ·stay" in shown.stdout
    assert "Decoding step by step" in picture.read_text()
    assert tfcli("explain", "decoding", "--csv").stdout.startswith("step,uniform,chosen,token")


def test_a_temperature_near_0_has_short_numbers():
    shown = tfcli("explain", "decoding", "--temperature", "1e-320").stdout
    assert "-5.9e+37" in shown
    assert max(map(len, shown.split())) < 80


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["Tom"], "A toy language has a beginning of its own"),
        (["--top-p", "0"], "--top-p 0 leaves no token to draw"),
        (["--temperature", "inf"], "--temperature inf is no finite number"),
        (["--json", "--csv"], "two forms of one result"),
    ],
)
def test_what_means_nothing_is_refused(arguments: list[str], problem: str):
    refused = tfcli("explain", "decoding", *arguments)
    assert refused.exit_code == 2
    assert problem in refused.stderr
