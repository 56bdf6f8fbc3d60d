"""`tfcli inspect training`."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.commands import tfcli


def test_a_run_trained_here_shows_its_curves_and_ratios(trained: Callable[[str], Path], tmp_path: Path):
    page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    shown = tfcli("inspect", "training", trained("decoder"), "--svg", picture, "--html", page)
    assert shown.exit_code == 0, shown.stderr
    assert "Update ratio" in shown.stdout
    assert picture.read_text().startswith("<svg")
    assert "Gradient" in page.read_text()


def test_json_and_csv_hold_the_same(trained: Callable[[str], Path]):
    found = json.loads(tfcli("inspect", "training", trained("encoder"), "--json").stdout)
    assert found["groups"] == ["all", "embeddings", "attention", "norms", "feed_forward"]
    lines = tfcli("inspect", "training", trained("encoder"), "--csv").stdout.splitlines()
    assert len(lines) == 1 + len(found["steps"]) == 9
    assert float(lines[-1].split(",")[1]) == found["losses"][-1]
    assert all(ratio > 0 for row in found["update_ratios"] for ratio in row)


def test_two_forms_of_one_result_are_refused(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "training", trained("decoder"), "--json", "--csv")
    assert refused.exit_code == 2
    assert "give one of the two" in refused.stderr
