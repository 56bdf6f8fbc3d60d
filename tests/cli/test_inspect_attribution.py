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
        *("tokens", "position", "token", "probability", "rank", "against", "best", "logit", "parts", "gated")
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
