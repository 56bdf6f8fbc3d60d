"""`inspect predictions`, from the command line."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.commands import tfcli


def test_json_has_every_position_and_its_candidates(trained: Callable[[str], Path]):
    result = tfcli("inspect", "predictions", trained("decoder"), "Tom", "--top-k", "2", "--position", "1", "--json")
    shown = json.loads(result.stdout)
    assert shown.keys() == {"kind", "position", "predictions", "threads"}
    assert (shown["kind"], shown["position"]) == ("next", 1)
    assert [one["read"] for one in shown["predictions"]] == ["<s>", "T", "o", "m"]
    assert [one["answer"] for one in shown["predictions"]] == ["T", "o", "m", None]
    assert shown["predictions"][0].keys() == {
        *("position", "read", "answer", "rank", "probability", "entropy", "candidates")
    }
    assert all(len(one["candidates"]) == 2 for one in shown["predictions"])


def test_csv_is_a_row_a_candidate_and_files_show_the_picture(trained: Callable[[str], Path], tmp_path: Path):
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    result = tfcli(
        *("inspect", "predictions", trained("encoder"), "T<mask>m", "--top-k", "3", "--csv"),
        *("--svg", svg, "--html", html),
    )
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert len(rows) == 5 * 3
    assert [row["read"] for row in rows[::3]] == ["<s>", "T", "<mask>", "m", "</s>"]
    assert rows[6]["answer"] == "" and rows[3]["answer"] == "T"
    assert "Predictions" in svg.read_text() and "Predictions" in html.read_text()


def test_what_is_wrong_is_said_in_a_sentence(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "predictions", trained("decoder"), "Tom", "--position", "9")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("tfcli: There is no position 9: the model reads 4 tokens; choose one from 0 to 3")
    refused = tfcli("inspect", "predictions", trained("decoder"), "Tom", "--target", "x")
    assert refused.exit_code == 2 and "--target is a second one" in refused.stderr
