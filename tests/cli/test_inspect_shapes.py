"""``tfcli inspect model|cost|scaling|gradients`` as they are typed."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import tfcli
from tfcli.runs.load import load_run

TINY = ("--size", "tiny", "--set", "model.vocab_size=100")


def ran(*arguments: str | Path) -> str:
    result = tfcli("inspect", *arguments, "--quiet")
    assert result.exit_code == 0, result.stderr
    return result.stdout


def as_json(*arguments: str | Path) -> dict[str, Any]:
    return json.loads(ran(*arguments, "--json"))  # type: ignore[no-any-return]


def as_csv(*arguments: str | Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(ran(*arguments, "--csv"))))


def refused(*arguments: str | Path) -> str:
    result = tfcli("inspect", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


def test_a_run_is_drawn_as_it_is(trained: Callable[[str], Path]):
    run = trained("encoder-decoder")
    shown = as_json("model", run)
    assert shown["parameters"] == load_run(run).model.num_parameters()
    assert [stack["side"] for stack in shown["stacks"]] == ["encoder", "decoder"]
    rows = as_csv("model", run)
    assert sum(int(row["count"]) * int(row["parameters"]) for row in rows) == shown["parameters"]
    assert as_json("cost", run)["parameters"] == shown["parameters"]


def test_a_preset_of_any_size_is_drawn_at_once():
    shown = ran("model", "--preset", "llama", "--set", "model.vocab_size=32000")
    assert "6,738,415,616 parameters" in shown
    assert "W gate  4096 × 11008" in shown


def test_the_cost_of_a_preset_is_what_pytorch_counts():
    shown = as_json("cost", "--preset", "gpt2", "--set", "model.vocab_size=50257", "--length", "128", "--batch", "2")
    assert shown["flops"] == shown["counted_flops"]
    assert shown["crossover"] == 4608
    assert (shown["sequences"], shown["length"]) == (2, 128)
    rows = as_csv("cost", *TINY)
    assert [row["length"] for row in rows] == ["128", "256", "512", "1024"]
    assert all(row["seconds"] == "" for row in rows)


@pytest.fixture
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfcli.inspection.cost.compute._BUDGET", 0.0)


@pytest.mark.usefixtures("in_haste")
def test_measured_time_stands_beside_predicted_time():
    small = ("--set", "model.d_model=8", "--set", "model.num_layers=1", "--set", "model.vocab_size=10")
    [row] = [row for row in as_csv("cost", *small, "--measure", "--length", "16") if row["length"] == "16"]
    assert float(row["seconds"]) > 0 < float(row["predicted_seconds"])


@pytest.mark.usefixtures("in_haste")
def test_heads_and_other_layers():
    rows = as_csv("cost", *TINY, "--heads", "1, 4", "--length", "16")
    assert [row["exponentials"] for row in rows] == ["256", "1024"]
    assert rows[0]["flops"] == rows[1]["flops"]
    assert "N + 1: whether a layer" in ran("cost", *TINY, "--against", "dense")
    assert {row["layer"] for row in as_csv("cost", *TINY, "--against", "rnn")} == {"attention", "rnn"}


def test_scaling_says_the_same_for_the_same_seed():
    small = ("scaling", "--queries", "50", "--keys", "4")
    assert ran(*small) == ran(*small) != ran(*small, "--seed", "1")
    assert [row["d_k"] for row in as_csv(*small)] == ["4", "8", "16", "32", "64", "128", "256", "512", "1024"]


def test_gradients_of_a_shape_and_of_a_run(trained: Callable[[str], Path]):
    rows = as_csv("gradients", *TINY)
    assert len(rows) == 5 * 2
    shown = as_json("gradients", trained("decoder"), "Tom swam")
    assert shown["text"] is True
    assert [profile["trained"] for profile in shown["profiles"]] == [True] + [False] * 5


@pytest.mark.parametrize("command", ["model", "cost", "scaling", "gradients"])
def test_pictures_are_written(command: str, tmp_path: Path):
    options = ("--queries", "10") if command == "scaling" else TINY
    ran(command, *options, "--svg", tmp_path / "a.svg", "--html", tmp_path / "a.html")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "<html" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_what_says_nothing_is_refused(trained: Callable[[str], Path], tmp_path: Path):
    run = trained("decoder")
    for command in ("model", "cost", "gradients"):
        assert "has a shape of its own; leave --size out" in refused(command, run, "--size", "tiny")
        text = ["Tom"] if command == "gradients" else []
        assert "none" in refused(command, tmp_path / "none", *text)
    assert "--csv and --json" in refused("scaling", "--csv", "--json")
    assert "--heads and --against are two pictures" in refused("cost", "--heads", "1", "--against", "rnn")
    assert "--heads '1,x' is no list of numbers" in refused("cost", "--heads", "1,x")
    assert "--heads 3 does not divide d_model = 64" in refused("cost", *TINY, "--heads", "3")
    assert "leave --length and --batch out" in refused("cost", "--against", "rnn", "--length", "8")
    assert "--measure makes the weights" in refused("cost", "--preset", "llama", "--measure")
    assert "needs something to read" in refused("gradients", run)
    assert "name a run" in refused("gradients", "--target", "x")
