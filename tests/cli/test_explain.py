"""``tfcli explain attention``, ``masking`` and ``layer`` as they are typed."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli


def test_the_lectures_example():
    result = tfcli(
        "explain", "attention", "Lucas will travel", "--d-model", "9", "--heads", "3", "--notation", "inf721"
    )
    assert result.exit_code == 0
    for line in (
        "  X_e = X E   X_epe = X_e + PE",
        "W₁^q  d_model × d_k = 9 × 3",
        "K₁  T_x × d_k = 3 × 3",
        "Divided by √d_k = √3 = 1.732: the size of one head, not of the model (√9 = 3).",
        "INF721's slide writes X_e = E X",
    ):
        assert line in result.stdout


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others():
    one, again, other = (tfcli("explain", "attention", "a b", "--seed", seed, "--csv").stdout for seed in "112")
    assert one == again != other


def test_masking_works_the_lectures_scores_out():
    shown = json.loads(tfcli("explain", "masking", "--json").stdout)
    assert shown["notation"] == "inf721"
    weights = shown["steps"][3]["matrices"][0]["values"]
    assert weights == [
        [1, 0, 0],
        pytest.approx([0.0002, 0.9998, 0], abs=5e-5),
        pytest.approx([0.0002, 0.0303, 0.9695], abs=5e-5),
    ]
    assert shown["steps"][1]["matrices"][0]["values"][0] == [0, None, None]  # −∞ is no number of JSON
    assert tfcli("explain", "masking", "Lucas will travel", "--heads", "1").stdout.count("P(next)") == 1


def test_layer_and_its_shapes():
    assert "X̃ = MLP(LayerNorm(Z)) + Z" in tfcli("explain", "layer", "--norm-placement", "pre").stdout
    shown = json.loads(tfcli("explain", "layer", "a b", "--shapes", "--json", "--notation", "cs224n").stdout)
    assert {"name": "transpose k", "axes": ["k", "n", "d/k"], "shape": [3, 2, 3]}.items() <= next(
        one for one in shown["tensors"] if one["name"] == "transpose k"
    ).items()
    rows = list(csv.DictReader(tfcli("explain", "layer", "a b", "--shapes", "--csv").stdout.splitlines()))
    assert rows[0]["axes"] == "N × D" and rows[0]["shape"] == "2 × 9"


def test_a_layer_of_a_run(trained: Callable[[str], Path]):
    run = trained("decoder")
    attention = tfcli("explain", "attention", "Tom", "--run", run, "--layer", "1", "--head", "1", "--notation", "udl")
    assert attention.exit_code == 0
    assert "layer 1, decoder_self" in attention.stdout and "Softmax₂  N × N = 4 × 4" in attention.stdout
    assert "RMSNorm of every token" in tfcli("explain", "layer", "Tom", "--run", run).stdout
    crossed = tfcli(
        *("explain", "attention", "O gato", "--target", "The cat", "--kind", "cross"),
        *("--run", trained("encoder-decoder")),
    )
    assert "Cross-attention, step by step" in crossed.stdout


def test_files_and_json_hold_every_matrix(tmp_path: Path):
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    result = tfcli("explain", "attention", "a b", "--json", "--svg", svg, "--html", html)
    shown = json.loads(result.stdout)
    table = next(one for step in shown["steps"] for one in step["matrices"] if one["name"] == "W⁽o⁾")
    assert len(table["values"]) == len(table["values"][0]) == 9 and table["axes"] == ["C·D_v", "D"]
    assert "Self-attention" in svg.read_text() and "Self-attention" in html.read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["attention", "a", "--d-model", "10"],
            "--d-model 10 is not divisible by --heads 3; choose a multiple, or --head-dim.",
        ),
        (["attention", ""], "The text is empty; give a few words."),
        (["attention", "a", "--layer", "0"], "A toy has no --layer; name a run with --run, or leave --layer out."),
        (["attention", "a", "--head", "3"], "There is no head 3: the model has 3; choose 0 to 2."),
        (
            ["attention", "a", "--projection", "none", "--heads", "2"],
            "Without projections there is one head, and not 2",
        ),
        (["attention", "a", "--projection", "none", "--score", "dot"], "--projection none takes X itself"),
        (["attention", "a", "--csv", "--json"], "--csv and --json are two forms of one result"),
        (["masking", "--head", "0"], "INF721's scores are given, and --head would change nothing; add a text to read."),
        (["layer", "--target", "a"], "A toy has no --target"),
        (["layer", "a", "--run", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_explained(arguments: list[str], problem: str):
    result = tfcli("explain", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr and "Traceback" not in result.stderr and result.stdout == ""


def test_what_a_run_does_not_have(trained: Callable[[str], Path]):
    run = trained("decoder")
    for arguments, problem in (
        (["--layer", "2"], "There is no layer 2: the model has 2; choose 0 to 1."),
        (["--kind", "cross"], "This decoder has no cross attention; choose decoder_self."),
        (["--d-model", "4"], "has its own sizes and weights; leave --d-model out, or leave --run out."),
    ):
        result = tfcli("explain", "attention", "Tom", "--run", run, *arguments)
        assert result.exit_code == 2 and problem in " ".join(result.stderr.split())
    assert "needs a text to read" in " ".join(tfcli("explain", "layer", "--run", run).stderr.split())
    masked = tfcli("explain", "masking", "Tom", "--run", trained("encoder"))
    assert masked.exit_code == 2 and "There is no causal mask" in masked.stderr
