"""A loss is per token, and a task head's per text, word or span boundary: everywhere it is shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tests.support.run_folders import falling, write_run
from tests.support.runs import tiny_recipe
from tfcli.inspection.evolution import Evolution, Evolved
from tfcli.inspection.evolution.view import EvolutionView
from tfcli.interop import Exportable
from tfcli.records.evaluation import loss_unit
from tfcli.records.runs import StepsDone, TrainingFinished, TrainingStarted
from tfcli.runs.card import run_card
from tfcli.runs.directory import RunDirectory
from tfcli.runs.metrics import training_curves
from tfcli.runs.overview import compare
from tfcli.training.view import TrainingView, event_line

STARTED = TrainingStarted("runs/a", "encoder", 100, 0, 100, 64, 900, 90, "cpu", "float32")
STEP = StepsDone(10, 100, 640, 0.25, 1e-3, 1.0, 1e3, 1.0, 9.0)
UNITS = {
    "classify": "nats per text",
    "tag": "nats per word",
    "span": "nats per span boundary",
    None: "nats per token",
}
TASKS = [task for task in UNITS if task]


def task_settings(task: str | None) -> dict[str, Any]:
    if task is None:
        return {}
    return {"train": {"task": task}, "data": {"source": "texts.jsonl"}}


@pytest.mark.parametrize("objective", ["clm", "mlm", "seq2seq", "completion", "prefix"])
def test_what_predicts_tokens_has_a_loss_per_token(objective: str) -> None:
    assert loss_unit(objective) == "nats per token"


@pytest.mark.parametrize("task", UNITS)
def test_a_run_s_pages_have_the_unit_of_its_task(tmp_path: Path, task: str | None) -> None:
    unit = UNITS[task]
    run = write_run(tmp_path / "run", falling(100), task_settings(task), architecture="encoder")
    assert training_curves(RunDirectory(run)).loss_unit == unit
    shown = tfcli("runs", "show", run).stdout
    assert f"{unit} at step" in " ".join(shown.split())
    curves = tfcli("inspect", "training", run).stdout
    assert f"Loss, {unit}" in curves
    others = set(UNITS.values()) - {unit}
    assert not [other for other in others if other in shown + curves]


@pytest.mark.parametrize("task", UNITS)
def test_a_run_s_card_has_the_unit_of_its_task(task: str | None) -> None:
    recipe = tiny_recipe("encoder", task_settings(task))
    finished = TrainingFinished("done", 12, 3456, 1.0, 1.25, 8, "run")
    page = run_card(recipe, finished, Exportable("none", (), None))
    assert f"| best validation loss | 1.2500 {UNITS[task]}, at step 8 |" in page


@pytest.mark.parametrize("task", UNITS)
def test_compared_curves_have_the_unit_of_their_task(tmp_path: Path, task: str | None) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, falling(100), task_settings(task), architecture="encoder")
    shown = tfcli("runs", "compare", tmp_path / "a", tmp_path / "b").stdout
    assert f"Validation loss, {UNITS[task]}" in shown
    assert f"Training loss, {UNITS[task]}" in shown


def test_losses_of_different_units_are_in_nats_alone(tmp_path: Path) -> None:
    for name, task in (("a", "classify"), ("b", None)):
        write_run(tmp_path / name, falling(100), task_settings(task), architecture="encoder")
    shown = tfcli("runs", "compare", tmp_path / "a", tmp_path / "b").stdout
    assert "Training loss, nats\n" in shown and "nats per" not in shown


@pytest.mark.parametrize(("task", "comparable"), [("classify", True), ("tag", True), ("span", False), (None, False)])
def test_losses_per_text_compare_between_tokenizers(tmp_path: Path, task: str | None, comparable: bool) -> None:
    """A span is told by tokens, so that its boundaries are others for another tokenizer."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, tokenizer in zip(paths, ("0123456789abcdef", "fedcba9876543210"), strict=True):
        write_run(path, falling(100), task_settings(task), architecture="encoder", tokenizer=tokenizer)
    notes = compare(paths).notes
    assert ("different tokenizers" in " ".join(notes)) is not comparable


@pytest.mark.parametrize("task", TASKS)
def test_a_training_shows_the_unit_of_its_task(task: str) -> None:
    started = replace(STARTED, loss_unit=UNITS[task])
    view = TrainingView()
    view.update(started)
    view.update(STEP)
    for width in (80, 140):
        assert f"0.2500 {UNITS[task]}" in printed(view, width)
    assert f"losses in {UNITS[task]}" in event_line(started)


def test_a_training_of_tokens_shows_figures_alone() -> None:
    view = TrainingView()
    view.update(STARTED)
    view.update(STEP)
    assert "0.2500" in printed(view, 80) and "nats" not in printed(view, 80)
    assert "losses in nats per token" in event_line(STARTED)


def test_an_evolution_has_the_unit_of_its_run() -> None:
    steps = ((1, 0.5), (2, 0.25), (3, 0.1))
    record = Evolution(
        run="runs/a",
        what="accuracy",
        measured_on="texts",
        steps=(1, 2, 3),
        parts=(Evolved("layer 0", (0.1, 0.2, 0.3)),),
        training=steps,
        validation=steps,
        loss_unit="nats per text",
    )
    assert "Loss, nats per text" in printed(EvolutionView(record), 80)
