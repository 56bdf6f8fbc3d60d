"""``tfcli explain positions`` as it is typed."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


def test_the_lectures_stand_side_by_side_and_the_chosen_one_is_marked():
    text = tfcli("explain", "positions", "--notation", "inf721").stdout
    assert "▸ INF721" in text
    for line in (
        "r_ni = sin(n / L^(i/D))      i even",
        "PE_(t,2i+1) = cos(t / 10000^(2i/d))",
        "p_j^(i) = cos(i / 10000^((j−1)/D))  j odd",
        "PE_(2,3) = cos(2 / 10000^(2·1/4)) = cos 0.0200 = 0.9998",
    ):
        assert line in text
    assert "2 of 4 dimensions" in " ".join(text.split())


def test_json_and_csv_carry_the_numbers(tmp_path: Path):
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    result = tfcli(
        "explain", "positions", "a b", "--length", "3", "--base", "100", "--json", "--svg", svg, "--html", html
    )
    shown = json.loads(result.stdout)
    assert [one["lecture"] for one in shown["spellings"]] == ["Bishop", "UDL", "CS224n", "INF721", "Encoder notes"]
    steps = shown["explanation"]["steps"]
    assert steps[2]["matrices"][0]["values"][1] == pytest.approx([0.841471, 0.540302, 0.0998334, 0.995004], abs=1e-6)
    assert "Lectures" in svg.read_text() or "lectures" in svg.read_text()
    assert "lectures" in html.read_text()
    rows = list(csv.DictReader(tfcli("explain", "positions", "a b", "--csv").stdout.splitlines()))
    assert {row["matrix"] for row in rows if row["step"] == "4"} == {"O E", "R", "X"}


def test_a_run_brings_its_embeddings(trained: Callable[[str], Path]):
    text = tfcli("explain", "positions", "o livro", "--run", trained("encoder-decoder")).stdout
    assert "These are the run's own positions: sinusoidal." in text
    assert "d_model 16" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--base", "1"], "--base 1 gives no growing wavelengths"),
        ([" "], "The text is empty; give a few words"),
        (["a", "--run", "RUN", "--d-model", "4"], "has its own sizes and weights; leave --d-model out"),
        (["a", "--run", "RUN", "--seed", "4"], "has its own sizes and weights; leave --seed out"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(arguments: list[str], words: str, trained: Callable[[str], Path]):
    typed = [str(trained("decoder")) if one == "RUN" else one for one in arguments]
    result = tfcli("explain", "positions", *typed)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.split())
