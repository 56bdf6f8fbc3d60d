"""An interrupted run that is resumed is the unbroken run, to the last bit."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.run_folders import signed
from tests.support.runs import (
    ARCHITECTURES,
    Settings,
    one_thread,
    resume_tiny,
    same,
    stop_after,
    tiny_recipe,
    train_tiny,
    weights,
)
from tfcli.errors import BrokenInputError
from tfcli.files import read_json, write_json
from tfcli.pipeline.datasets import obtain_data
from tfcli.records.runs import StepsDone, TrainingStarted
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.runs.metrics import read_metrics
from tfcli.runs.weights import load_tensors, save_tensors
from tfcli.training import job
from tfcli.training.job import start

BUSY: Settings = {
    "model": {"dropout": 0.2, "num_layers": 2},
    "train": {
        "steps": 12,
        "grad_accumulation": 2,
        "evaluate_every": 4,
        "save_every": 5,
        "log_every": 1,
        "label_smoothing": 0.1,
    },
}
TIMES = ("seconds", "seconds_left", "tokens_per_second")


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    with one_thread():
        yield


def metrics(run: Path) -> list[dict[str, Any]]:
    """All that is no time."""
    lines = read_metrics(run / "metrics.jsonl")
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def files(run: Path) -> list[Path]:
    last = RunDirectory(run).checkpoint(12)
    return [run / "model.safetensors", last / "model.safetensors", last / "optimizer.safetensors"]


@pytest.fixture(scope="module")
def unbroken(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each architecture that nobody interrupts."""
    folder = tmp_path_factory.mktemp("unbroken")
    with one_thread():
        for architecture in ARCHITECTURES:
            train_tiny(tiny_recipe(architecture, BUSY), folder / architecture)
    return folder


@pytest.mark.parametrize("steps", [(1,), (4,), (5,), (7,), (2, 3, 1)], ids=str)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_interrupted_run_becomes_the_unbroken_one(
    tmp_path: Path, unbroken: Path, architecture: str, steps: tuple[int, ...]
):
    """Stopped after 1 step; at an evaluation (4); at a checkpoint (5); at neither (7); and three times
    over."""
    run = tmp_path / "run"
    finished, _ = train_tiny(tiny_recipe(architecture, BUSY), run, stop=stop_after(steps[0]))
    reached = steps[0]
    for more in steps[1:]:
        assert (finished.reason, finished.step) == ("interrupted", reached)
        finished, events = resume_tiny(run, stop=stop_after(more))
        assert events.of(TrainingStarted)[0].step == reached
        reached += more
    assert (finished.reason, finished.step) == ("interrupted", reached)
    assert [*RunDirectory(run).checkpoints()] == [reached]
    load_run(run)
    # Other random numbers in between, as in another process.
    torch.manual_seed(987)
    finished, _ = resume_tiny(run)
    assert (finished.reason, finished.step) == ("done", 12)
    for ours, theirs in zip(files(run), files(unbroken / architecture), strict=True):
        assert same(weights(ours), weights(theirs)), ours
    assert metrics(run) == metrics(unbroken / architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_comparison_can_fail(tmp_path: Path, unbroken: Path, architecture: str):
    """Another seed of the same run gives other weights and other losses, so that equality means something;
    and dropout is really drawn from the state that a checkpoint keeps."""
    run = tmp_path / "run"
    train_tiny(tiny_recipe(architecture, BUSY), run, stop=stop_after(5))
    moments = RunDirectory(run).checkpoint(5) / "optimizer.safetensors"
    tensors, metadata = load_tensors(moments)
    tensors["random.cpu"] = torch.Generator().manual_seed(5).get_state()
    save_tensors(moments, tensors, metadata)
    resume_tiny(run)
    assert metrics(run)[:5] == metrics(unbroken / architecture)[:5]
    assert metrics(run) != metrics(unbroken / architecture)
    assert not same(weights(run / "model.safetensors"), weights(unbroken / architecture / "model.safetensors"))


def test_the_last_step_is_done_even_when_a_stop_is_asked_for(tmp_path: Path):
    finished, _ = train_tiny(tiny_recipe("decoder", {"train": {"steps": 3}}), tmp_path / "run", stop=stop_after(3))
    assert (finished.reason, finished.step) == ("done", 3)


def test_a_kill_goes_back_to_the_last_checkpoint_and_forgets_later_lines(tmp_path: Path, unbroken: Path):
    """Killed between step 7 and step 8: the checkpoint is that of step 5, but metrics go on to 7."""
    run = tmp_path / "run"
    train_tiny(tiny_recipe("decoder", BUSY), run, stop=stop_after(5))
    later = [line for line in read_metrics(unbroken / "decoder" / "metrics.jsonl") if line["step"] in (6, 7)]
    with (run / "metrics.jsonl").open("a") as file:
        for line in later:
            file.write(json.dumps({**line, "loss": 99.0}) + "\n")
    shutil.copy(unbroken / "decoder" / "model.safetensors", run / "model.safetensors")
    resume_tiny(run)
    assert metrics(run) == metrics(unbroken / "decoder")
    for ours, theirs in zip(files(run), files(unbroken / "decoder"), strict=True):
        assert same(weights(ours), weights(theirs)), ours


def test_a_run_that_was_only_begun_loads_and_goes_on(tmp_path: Path, unbroken: Path):
    """A kill before the first step: the folder holds the initial weights, as a checkpoint and to be loaded."""
    run, recipe = tmp_path / "run", tiny_recipe("decoder", BUSY)
    tokenizer, data = obtain_data(recipe.resolved(), lambda event: None)
    start(recipe.resolved(), data, tokenizer, RunDirectory(run))
    assert [*RunDirectory(run).checkpoints()] == [0]
    load_run(run)
    resume_tiny(run)
    assert metrics(run) == metrics(unbroken / "decoder")
    assert same(weights(run / "model.safetensors"), weights(unbroken / "decoder" / "model.safetensors"))


def test_a_run_that_lost_its_checkpoints_is_refused(tmp_path: Path):
    run = tmp_path / "run"
    train_tiny(tiny_recipe("decoder", BUSY), run, stop=stop_after(1))
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(BrokenInputError, match="has lost its checkpoints"):
        resume_tiny(run)


@pytest.mark.parametrize("steps", [(7,), (8,), (1, 1), (3, 4, 1)], ids=str)
def test_reports_do_not_show_where_a_run_was_interrupted(tmp_path: Path, steps: tuple[int, ...]):
    """Reported every 3 steps and stopped between reports: every line of the metrics is that of the unbroken run, and
    the steps before the stop count in the next report."""
    every_three = {"train": {"log_every": 3}}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train_tiny(tiny_recipe("decoder", BUSY, every_three), whole)
    train_tiny(tiny_recipe("decoder", BUSY, every_three), broken, stop=stop_after(steps[0]))
    for more in steps[1:]:
        resume_tiny(broken, stop=stop_after(more))
    resume_tiny(broken)
    assert metrics(broken) == metrics(whole)
    assert [line["step"] for line in metrics(broken) if line["event"] == "step"] == [3, 6, 9, 12]


def test_seconds_go_on_from_where_they_were(tmp_path: Path):
    run = tmp_path / "run"
    train_tiny(tiny_recipe("decoder", BUSY), run, stop=stop_after(5))
    state = RunDirectory(run).checkpoint(5) / "state.json"
    signed(state, seconds=1000.0)
    finished, events = resume_tiny(run)
    assert 1000 < events.of(StepsDone)[0].seconds < finished.seconds < 1100


def test_precision_is_decided_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run that began in bfloat16 goes on in it, on a machine whose own rule would say something else."""
    monkeypatch.setattr(job, "choose_precision", lambda *_: "bfloat16")
    run = tmp_path / "run"
    train_tiny(tiny_recipe("decoder", {"train": {"steps": 4}}), run, stop=stop_after(2))
    assert load_run(run).recipe.train.precision == "bfloat16"
    monkeypatch.setattr(job, "choose_precision", lambda *_: pytest.fail("decided again"))
    _, events = resume_tiny(run)
    assert events.of(TrainingStarted)[0].precision == "bfloat16"


def test_bfloat16_is_another_arithmetic_over_the_same_float32_weights(tmp_path: Path):
    runs = {}
    for precision in ("float32", "bfloat16"):
        settings = {"train": {"steps": 4, "log_every": 1, "precision": precision}}
        _, events = train_tiny(tiny_recipe("decoder", settings), tmp_path / precision)
        runs[precision] = [event.loss for event in events.of(StepsDone)]
        stored = weights(tmp_path / precision / "model.safetensors")
        assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
    assert runs["float32"] != runs["bfloat16"]
    assert runs["bfloat16"] == pytest.approx(runs["float32"], rel=0.01)


def damage(file: str, change: Any) -> Any:
    def apply(folder: Path) -> None:
        tensors, metadata = load_tensors(folder / file)
        change(tensors, metadata)
        save_tensors(folder / file, tensors, metadata)

    return apply


def cut(file: str) -> Any:
    def apply(folder: Path) -> None:
        content = (folder / file).read_bytes()
        (folder / file).write_bytes(content[: len(content) // 2])

    return apply


QUERY = "stack.layers.0.attention.query.weight"
DAMAGES = {
    "weights of another run": (
        damage("model.safetensors", lambda _, metadata: metadata.update(run_id="another")),
        "belongs to another run",
    ),
    "moments of another run": (
        damage("optimizer.safetensors", lambda _, metadata: metadata.update(run_id="another")),
        "belongs to another run",
    ),
    "a moment missing": (
        damage("optimizer.safetensors", lambda tensors, _: tensors.pop(f"exp_avg_sq.{QUERY}")),
        f"lacks the tensor 'exp_avg_sq.{QUERY}'",
    ),
    "no random state": (
        damage("optimizer.safetensors", lambda tensors, _: tensors.pop("random.cpu")),
        "lacks the tensor 'random.cpu'",
    ),
    "a moment of another shape": (
        damage("optimizer.safetensors", lambda tensors, _: tensors.update({f"exp_avg_sq.{QUERY}": torch.ones(2)})),
        f"'exp_avg_sq.{QUERY}' has the shape (2,), not (16, 16)",
    ),
    "half of the weights": (cut("model.safetensors"), "is truncated"),
    "half of the moments": (cut("optimizer.safetensors"), "is truncated"),
    "half of the state": (cut("state.json"), "is not valid JSON"),
    "a state of another version": (
        lambda folder: write_json(folder / "state.json", {**read_json(folder / "state.json"), "format_version": 9}),
        "has format version 9, and this tfcli reads 3 or 4 or 5",
    ),
    "a state with another counter": (
        lambda folder: write_json(folder / "state.json", {**read_json(folder / "state.json"), "epoch": 9}),
        "state.json is damaged",
    ),
}


@pytest.fixture(scope="module")
def interrupted(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("interrupted") / "run"
    train_tiny(tiny_recipe("decoder", BUSY), run, stop=stop_after(5))
    return run


@pytest.mark.parametrize(("apply", "words"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_left_as_it_is(tmp_path: Path, interrupted: Path, apply: Any, words: str):
    run = shutil.copytree(interrupted, tmp_path / "run")
    folder = RunDirectory(run).checkpoint(5)
    apply(folder)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(BrokenInputError) as caught:
        resume_tiny(run)
    assert words in str(caught.value)
    assert str(folder) in str(caught.value)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
