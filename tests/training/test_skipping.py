"""A step whose numbers are not finite is left out, counted and told, as often as the recipe allows."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.support.runs import Settings, resume_tiny, same, stop_after, tiny_recipe
from tests.training.test_loop import job
from tfcli.data.batch import Batch
from tfcli.errors import TfcliError
from tfcli.records.runs import StepsDone
from tfcli.runs.metrics import read_metrics
from tfcli.training import loop
from tfcli.training.job import TrainingJob
from tfcli.training.objective import TrainingLoss
from tfcli.training.schedule import learning_rate

Poison = Callable[[dict[int, float]], None]


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Poison:
    """The losses of some forward passes, counted from 1, are multiplied by what is given: gradients are too."""
    true = TrainingLoss.forward

    def at(factors: dict[int, float]) -> None:
        calls = 0

        def forward(self: TrainingLoss, batch: Batch) -> Tensor:
            nonlocal calls
            calls += 1
            return true(self, batch) * factors.get(calls, 1.0)

        monkeypatch.setattr(TrainingLoss, "forward", forward)

    return at


def state(its_job: TrainingJob) -> dict[str, Tensor]:
    """Weights, moments and moving average."""
    named = {f"weights.{name}": p.detach().clone() for name, p in its_job.model.named_parameters()}
    for number, optimizer in enumerate(its_job.optimizers):
        for place, values in enumerate(optimizer.state.values()):
            named |= {f"{number}.{place}.{key}": value.clone() for key, value in values.items()}
    assert its_job.average is not None
    return named | {f"average.{name}": tensor.clone() for name, tensor in its_job.average.tensors.items()}


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_step_that_is_left_out_changes_nothing_but_the_counters(
    tmp_path: Path, poison: Poison, optimizer: str, factor: float
):
    """Two micro-batches a step: the second of step 3 is bad, which is pass 6, and so is the first of step 6."""
    settings: Settings = {
        "train": {
            "steps": 8,
            "grad_accumulation": 2,
            "log_every": 1,
            "skip_nonfinite": 2,
            "ema_decay": 0.9,
            "optimizer": optimizer,
            "evaluate_every": 0,
        }
    }
    its_job = job(tiny_recipe("decoder", settings), tmp_path / "run")
    poison({6: factor, 11: factor})
    states, reports = [state(its_job)], []
    for event in loop.train(its_job):
        if isinstance(event, StepsDone):
            states.append(state(its_job))
            reports.append(event)
    changed = [not same(before, after) for before, after in pairwise(states)]
    assert changed == [True, True, False, True, True, False, True, True]
    assert [event.skipped for event in reports] == [0, 0, 1, 1, 1, 2, 2, 2]
    assert [event.learning_rate for event in reports] == [learning_rate(n, its_job.recipe.train) for n in range(1, 9)]
    assert [math.isfinite(event.loss) for event in reports] == changed
    assert its_job.progress.skipped == 2
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["event"] == "step"]
    assert [line["loss"] is None for line in lines] == [not moved for moved in changed]
    assert all(torch.isfinite(tensor).all() for tensor in states[-1].values())
    updates = {float(tensor) for name, tensor in states[-1].items() if name.endswith(".step")}
    assert updates == {6.0}, "Adam's own counter leaves them out too"


def test_a_report_leaves_out_the_loss_and_counts_the_tokens(tmp_path: Path, poison: Poison):
    settings: Settings = {"train": {"steps": 3, "log_every": 1, "skip_nonfinite": 1}}
    losses: list[float] = []
    for log_every in (1, 3):
        rhythm: Settings = {"train": {"log_every": log_every}}
        its_job = job(tiny_recipe("encoder", settings, rhythm), tmp_path / str(log_every))
        poison({2: math.nan})
        reports = [event for event in loop.train(its_job) if isinstance(event, StepsDone)]
        losses.append(reports[-1].loss if log_every == 3 else math.nan)
        if log_every == 1:
            batches = its_job.training.training()
            targets = [next(batches).target_tokens for _ in range(3)]
            mean = (reports[0].loss * targets[0] + reports[2].loss * targets[2]) / (targets[0] + targets[2])
            tokens = reports[-1].tokens
    assert losses[1] == pytest.approx(mean)
    assert reports[-1].tokens == tokens


@pytest.mark.parametrize(("allowed", "before"), [(1, "1 step was left out"), (2, "2 steps were left out")])
def test_one_more_than_is_allowed_ends_the_run(tmp_path: Path, poison: Poison, allowed: int, before: str):
    settings: Settings = {"train": {"skip_nonfinite": allowed, "save_every": 2}}
    its_job = job(tiny_recipe("decoder", settings), tmp_path / "run")
    poison(dict.fromkeys((5, 6, 7, 9), math.nan))
    with pytest.raises(TfcliError) as caught:
        list(loop.train(its_job))
    step = 5 + allowed
    kept = 4 if allowed == 1 else 6
    assert f"The loss became nan at step {step}, and {before} before" in str(caught.value)
    assert f"(the checkpoint of step {kept} is kept)" in str(caught.value)


def test_the_counter_outlives_an_interruption(tmp_path: Path, poison: Poison):
    its_job = job(tiny_recipe("decoder", {"train": {"skip_nonfinite": 1}}), tmp_path / "run")
    poison({2: math.nan, 7: math.nan})
    list(loop.train(its_job, stop_after(4)))
    with pytest.raises(TfcliError, match="at step 7, and 1 step was left out before"):
        resume_tiny(tmp_path / "run")
