"""What a side says, in this process and in one of its own."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.bench import TINY
from tfcli.bench import worker
from tfcli.bench.measure import SideProcess
from tfcli.errors import TfcliError, UsageError
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe
from tfcli.training.job import StepBenchmark

RECIPE = build_recipe(TINY).resolved()
PRODUCTS = {"open": "products", "shapes": [[2, 2, 2]], "precisions": ["float32"], "device": "cpu", "threads": 1}


def tfcli_side(recipe: Recipe = RECIPE) -> dict[str, Any]:
    return {"open": "tfcli", "recipe": asdict(recipe), "precision": ""}


def answers(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    replies = io.StringIO()
    worker.serve(io.StringIO("".join(json.dumps(request) + "\n" for request in requests)), replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


def test_a_side_opens_steps_and_stops():
    """Its losses are those of the recipe's own steps: 16 of 2 × 8 tokens each."""
    step, stop = {"do": "step"}, {"do": "stop"}
    about, first, second, held = answers(tfcli_side(), step, step, stop, step)
    trial = StepBenchmark(RECIPE)
    assert about == {"model": "Decoder", "precision": "float32", "parameters": trial.parts.model.num_parameters()}
    assert [first["loss"], second["loss"]] == [float(trial.step()), float(trial.step())]
    assert first["tokens"] == 16
    assert 0 < first["seconds"] < 60
    assert held["memory"] > 50_000_000, "PyTorch alone takes more"


def test_it_ends_when_nobody_asks_any_more():
    assert len(answers(tfcli_side(), {"do": "step"})) == 2


def test_what_a_user_can_cause_is_answered_in_words():
    other = replace(RECIPE, train=replace(RECIPE.train, device="mps"))
    (answer,) = answers(tfcli_side(other))
    assert answer == {
        "problem": "There is no mps device on this machine",
        "remedy": "use --device auto",
        "exit_code": 2,
    }


def test_what_pytorch_fails_with_is_answered_too(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory\nand a trace")

    monkeypatch.setattr(worker, "open_side", fail)
    (answer,) = answers(PRODUCTS)
    assert answer["exit_code"] == 1
    assert answer["problem"] == "PyTorch failed (out of memory and a trace)"


def test_a_process_of_its_own():
    with SideProcess("tfcli", tfcli_side()) as side:
        assert side.about["model"] == "Decoder"
        assert side.step()["loss"] == float(StepBenchmark(RECIPE).step())
        assert side.stop()["memory"] > 50_000_000
        assert side._process.returncode == 0


def written_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have a script of bash answer in the place of Python."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/bash\nread line\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr("tfcli.machine.sys.executable", str(python))


@pytest.mark.parametrize(("code", "kind"), [(1, TfcliError), (2, UsageError)])
def test_a_process_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[TfcliError]
) -> None:
    answer = json.dumps({"problem": "There is no room", "remedy": "make some", "exit_code": code})
    written_process(tmp_path, monkeypatch, f"echo '{answer}'")
    with pytest.raises(TfcliError) as caught:
        SideProcess("products", PRODUCTS)
    assert type(caught.value) is kind
    assert str(caught.value) == "There is no room, in the process of products; make some."


@pytest.mark.parametrize(
    ("script", "words"), [("kill -9 $$", "exit code -9"), ("echo one >&2; echo two >&2; exit 3", "two")]
)
def test_a_process_that_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str):
    written_process(tmp_path, monkeypatch, script)
    with pytest.raises(TfcliError, match=rf"The process of products ended \({words}\)") as caught:
        SideProcess("products", PRODUCTS)
    assert caught.value.exit_code == 1
