"""Averages of weights: by hand, and what a run keeps of them."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.support.runs import Events, same, tiny_recipe, train_tiny, weights
from tests.training.test_loop import job, scripted
from tfcli.errors import BrokenInputError, UsageError
from tfcli.evaluation.measure import total_loss
from tfcli.recipe.train import TrainSection
from tfcli.records.runs import CheckpointSaved, Evaluated
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.runs.weights import load_tensors, model_tensors, save_tensors
from tfcli.training import loop
from tfcli.training.averaging import MovingAverage, exchanged
from tfcli.training.checkpoint import checkpoints_to_keep


def one_weight(value: float) -> nn.Module:
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, value)
    return module


def test_a_moving_average_by_hand():
    """d₁ = min(0.2, 2/11) = 2/11: 2/11 · 1 + 9/11 · 12 = 10. d₂ = min(0.2, 3/12) = 0.2: 0.2 · 10 + 0.8 · 20 = 18."""
    module = one_weight(1.0)
    average = MovingAverage(module, 0.2)
    for updates, value, expected in ((1, 12.0, 10.0), (2, 20.0, 18.0)):
        nn.init.constant_(module.weight, value)
        average.update(module, updates)
        assert average.tensors["weight"].item() == pytest.approx(expected)
        assert module.weight.item() == value


def test_weights_are_exchanged_and_come_back_to_the_bit():
    module, other = one_weight(1 / 3), {"weight": torch.full((1, 1), 0.1)}

    def fail_inside() -> None:
        with exchanged(module, other):
            assert (module.weight.item(), other["weight"].item()) == (pytest.approx(0.1), pytest.approx(1 / 3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert torch.equal(module.weight, torch.full((1, 1), 1 / 3))
    assert torch.equal(other["weight"], torch.full((1, 1), 0.1))


def test_the_moving_average_is_what_is_scored_and_kept(tmp_path: Path):
    """Recomputed here from the weights of every step, one after the other."""
    decay = 0.6
    its_job = job(tiny_recipe("decoder", {"train": {"ema_decay": decay, "log_every": 1}}), tmp_path / "run")
    mean = {name: p.detach().clone() for name, p in model_tensors(its_job.model).items()}
    seen: list[float] = []
    for event in loop.train(its_job):
        if event.__class__.__name__ == "StepsDone":
            d = min(decay, (1 + event.step) / (10 + event.step))
            mean = {n: d * mean[n] + (1 - d) * p.detach() for n, p in model_tensors(its_job.model).items()}
        if isinstance(event, Evaluated):
            assert event.of == "moving_average"
            kept = load_run(tmp_path / "run")
            assert total_loss(kept.model, its_job.validation.whole(), kept.device).loss == pytest.approx(event.loss)
            seen.append(event.loss)
            for name, tensor in weights(tmp_path / "run" / "model.safetensors").items():
                torch.testing.assert_close(tensor, mean[name])
            assert not same(model_tensors(its_job.model), model_tensors(kept.model))
    assert seen == sorted(seen, reverse=True), "the premise: every evaluation was the best"
    last = RunDirectory(tmp_path / "run").checkpoint(12)
    assert same(weights(last / "model.safetensors"), model_tensors(its_job.model)), "training goes on with its own"


def test_without_decay_the_weights_are_scored(tmp_path: Path):
    _, events = train_tiny(tiny_recipe("decoder", {"train": {"steps": 2}}), tmp_path / "run")
    assert {event.of for event in events.of(Evaluated)} == {"weights"}


def section(save_every: int, keep: int) -> TrainSection:
    return TrainSection(save_every=save_every, keep_checkpoints=keep)


@pytest.mark.parametrize(
    ("steps", "keep", "kept"),
    [
        ({0, 4, 8, 12}, 1, {12}),
        ({0, 4, 8, 12}, 3, {4, 8, 12}),
        ({0, 4, 8, 11}, 3, {4, 8, 11}),  # an interruption at 11
        ({4, 8, 11, 12}, 3, {4, 8, 12}),  # and what it has brought goes with the next
        ({5, 7}, 2, {7}),
        ({0, 4}, 5, {0, 4}),
    ],
    ids=str,
)
def test_checkpoints_that_were_due_are_kept(steps: set[int], keep: int, kept: set[int]):
    assert checkpoints_to_keep(steps, section(4, keep)) == kept


def checkpoint_weights(run: Path, step: int) -> dict[str, Tensor]:
    return weights(RunDirectory(run).checkpoint(step) / "model.safetensors")


@pytest.mark.parametrize("better", [True, False])
def test_the_mean_of_the_last_checkpoints_is_kept_if_it_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, better: bool
):
    """Saved every 3 of 10 steps, 3 averaged: those of steps 6, 9 and 10."""
    scripted(monkeypatch, [3.0, 2.0, 1.0 if better else 2.5])
    settings = {"train": {"steps": 10, "save_every": 3, "evaluate_every": 5, "keep_checkpoints": 4}}
    run = tmp_path / "run"
    average = {"train": {"average_checkpoints": 3}}
    finished, events = train_tiny(tiny_recipe("decoder", settings, average), run)
    assert [*RunDirectory(run).checkpoints()] == [3, 6, 9, 10]
    assert [(event.step, event.of, event.best) for event in events.of(Evaluated)] == [
        (5, "weights", True),
        (10, "weights", True),
        (10, "checkpoints", better),
    ]
    assert finished.best_loss == (1.0 if better else 2.0)
    ours, last = weights(run / "model.safetensors"), checkpoint_weights(run, 10)
    if not better:
        assert same(ours, last)
        return
    others = [checkpoint_weights(run, step) for step in (6, 9)]
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, (others[0][name] + others[1][name] + last[name]) / 3)
    assert not same(ours, last)


def test_the_initial_weights_are_never_averaged(tmp_path: Path):
    settings = {"train": {"steps": 5, "save_every": 4, "keep_checkpoints": 3, "average_checkpoints": 3}}
    its_job = job(tiny_recipe("decoder", settings), tmp_path / "run")
    events = Events()
    mean: dict[str, Tensor] = {}
    for event in loop.train(its_job):
        events.append(event)
        if isinstance(event, CheckpointSaved):
            saved = [checkpoint_weights(tmp_path / "run", step) for step in (4, event.step)]
            mean = {name: (saved[0][name] + saved[1][name]) / 2 for name in saved[0]}
    score = events.of(Evaluated)[-1]
    assert [*its_job.run.checkpoints()] == [0, 4, 5]
    with exchanged(its_job.model, mean):
        loss = total_loss(its_job.model, its_job.validation.whole(), its_job.device).loss
    assert loss == pytest.approx(score.loss, rel=1e-5)


@pytest.mark.parametrize("damage", ["NaN", "integers", "another run's"])
def test_a_damaged_checkpoint_is_not_averaged(tmp_path: Path, damage: str):
    """And the checkpoints stay as they are: training goes on from the last one."""
    settings = {"train": {"steps": 6, "save_every": 2, "keep_checkpoints": 3, "average_checkpoints": 3}}
    its_job = job(tiny_recipe("decoder", settings), tmp_path / "run")
    file = its_job.run.checkpoint(2) / "model.safetensors"

    def spoil() -> None:
        tensors, metadata = load_tensors(file)
        first = next(iter(tensors))
        tensors[first] = {"NaN": tensors[first] * float("nan"), "integers": tensors[first].int()}.get(
            damage, tensors[first]
        )
        save_tensors(file, tensors, {**metadata, "run_id": "another"} if damage == "another run's" else metadata)

    def train_and_spoil() -> None:
        for event in loop.train(its_job):
            if isinstance(event, CheckpointSaved) and event.step == 2:
                spoil()

    with pytest.raises(BrokenInputError, match=r"step-000002.*(not finite|torch\.int32|another run)"):
        train_and_spoil()
    assert [*its_job.run.checkpoints()] == [2, 4, 6]
    load_run(tmp_path / "run", "last")


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ({"average_checkpoints": 1}, "averages nothing"),
        ({"average_checkpoints": 3, "keep_checkpoints": 2}, "train.keep_checkpoints = 2; keep as many, or more"),
        ({"average_checkpoints": 2, "keep_checkpoints": 2, "save_every": 0}, "train.save_every = 0 makes one"),
    ],
)
def test_an_average_needs_checkpoints(train: dict[str, int], words: str):
    with pytest.raises(UsageError, match=words):
        tiny_recipe("decoder", {"train": train})
