"""``tfcli inspect equivariance`` as it is typed."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import tfcli

TINY = ("--set", "model.d_model=16", "--set", "model.num_layers=2", "--set", "model.num_heads=2")


def shown(*arguments: str | Path) -> Any:
    result = tfcli("inspect", "equivariance", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_words_are_the_tokens_of_random_weights():
    found = shown("--arch", "encoder", *TINY)
    assert found["tokens"] == ["The", "man", "ate", "the", "fish"]
    assert (found["model"], found["permutations"], found["perturbation"], found["order"]) == (
        "random weights",
        10,
        None,
        None,
    )
    assert [(one["variant"]["own"], one["equivariant"]) for one in found["deviations"]] == [
        (False, True),
        (True, False),
        (False, False),
        (False, False),
    ]
    assert [one["leaks"] for one in found["leaks"]] == [False, True]


def test_the_seed_decides_the_weights():
    first, second, other = (shown("--text", "a b", *TINY, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == second
    assert first != other


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_a_run_reads_its_own_tokens(trained: Callable[[str], Path], architecture: str):
    found = shown(trained(architecture), "--text", "o livro", "--perturb", "1")
    assert found["architecture"] == architecture
    assert (found["tokens"][0] == "<s>") == (architecture != "encoder-decoder")
    moved = found["perturbation"]["moved"]
    assert len(moved) == len(found["tokens"])
    assert (moved[0][-1] == 0) == (architecture == "decoder"), "only a decoder's earlier rows cannot move"


def test_two_texts_of_the_same_tokens(tmp_path: Path):
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    result = tfcli(
        *("inspect", "equivariance", "--arch", "encoder", *TINY),
        *("--text", "The man ate the fish", "--text", "The fish ate the man", "--csv", "--svg", svg, "--html", html),
    )
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [row["second"] for row in rows[:6]] == ["0", "4", "2", "3", "1", ""]
    bare = [float(row["moved"]) for row in rows if row["positions"] == row["masked"] == "False"]
    assert len(bare) == 6 and max(bare) < 1e-5
    assert "Equivariance" in svg.read_text() and "bag" in html.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--text a --text b --text c", "3 texts are more than two orders"),
        ("--text=a --text=b --perturb 0", "--perturb follows a token of one text; give --text once"),
        ("--text a", "A text of one kind of token has no order to change"),
        ("--text", "requires an argument"),
        ("--perturb 5", "The text has no token 5; choose 0 to 4"),
        ("--text=a\u00a0b --text=a", "more often than the other"),
        ("--set model.max_seq_len=2", "The text has 5 words and the context holds 2"),
        ("RUN --arch encoder", "has a shape of its own; leave --arch out"),
        ("nowhere", "There is no run"),
    ],
)
def test_what_says_nothing_is_refused(arguments: str, words: str, trained: Callable[[str], Path]):
    typed = [str(trained("decoder")) if one == "RUN" else one.replace("\u00a0", " ") for one in arguments.split(" ")]
    result = tfcli("inspect", "equivariance", *typed)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.replace("│", " ").split())


def test_it_runs_where_it_is_told_to(trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    """Both a run and random weights are on the device that is chosen."""
    from tfcli.models import device

    asked: list[str] = []
    choose = device.choose_device
    monkeypatch.setattr(device, "choose_device", lambda name: asked.append(name) or choose(name))
    for subject in ([str(trained("decoder"))], TINY):
        result = tfcli("inspect", "equivariance", *subject, "--permutations", "1", "--device", "cpu", "--threads", "1")
        assert result.exit_code == 0
    assert asked == ["cpu", "cpu"]
