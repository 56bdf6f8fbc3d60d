"""With all of it on, a run that is interrupted or killed at any steps ends as the one that nobody touched."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.support.left import Left, require_equal, what_is_left
from tests.support.runs import ARCHITECTURES, Settings, one_thread, stop_after, tiny_recipe
from tfcli.data.batch import Batch
from tfcli.pipeline.training import resume_run, train_recipe
from tfcli.recipe.recipe import Recipe
from tfcli.training.objective import TrainingLoss

STEPS = 14
ALL: Settings = {
    "model": {"dropout": 0.2, "num_layers": 2},
    "train": {
        "steps": STEPS,
        "grad_accumulation": 2,
        "log_every": 3,
        "evaluate_every": 5,
        "save_every": 4,
        "schedule": "wsd",
        "decay_share": 0.5,
        "ema_decay": 0.8,
        "skip_nonfinite": 50,
        "keep_checkpoints": 3,
        "average_checkpoints": 3,
        "label_smoothing": 0.1,
    },
}
MUON: Settings = {"train": {"optimizer": "muon"}}
SAMPLED: Settings = {"train": {"evaluate_tokens": 60}}


class Killed(BaseException):
    """What no handler of the product waits for."""


@pytest.fixture(autouse=True, scope="module")
def poisoned() -> Iterator[None]:
    """Every seventh or so batch has a loss that is no number; which one is a matter of its tokens alone."""
    true: Callable[[TrainingLoss, Batch], Tensor] = TrainingLoss.forward

    def forward(self: TrainingLoss, batch: Batch) -> Tensor:
        return true(self, batch) * (torch.nan if int(batch.input_ids.sum()) % 7 == 0 else 1.0)

    with pytest.MonkeyPatch.context() as patch, one_thread():
        patch.setattr(TrainingLoss, "forward", forward)
        yield


def recipe(architecture: str) -> Recipe:
    return tiny_recipe(architecture, ALL, SAMPLED if architecture == "encoder" else MUON)


def nothing(event: Any) -> None:
    """Nobody looks."""


@pytest.fixture(scope="module", params=ARCHITECTURES)
def unbroken(request: pytest.FixtureRequest, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Left]:
    run = tmp_path_factory.mktemp("unbroken") / request.param
    train_recipe(recipe(request.param), run, nothing, lambda: False)
    left = what_is_left(run)
    assert "checkpoints" in [line.get("of") for line in left["metrics"]]
    assert (left["metrics"][-1]["part"] == "whole") and any(
        line.get("part") == "sample" for line in left["metrics"]
    ) == (request.param == "encoder")
    skipped = [line["skipped"] for line in left["metrics"] if "skipped" in line]
    assert 0 < skipped[-1] < STEPS - 3, "the premise: some steps are left out, and not all of them"
    assert [key for key in left if key.startswith("state")] == ["state 4", "state 8", "state 12", "state 14"], (
        "one from before the decay"
    )
    return request.param, left


breaks = st.lists(st.tuples(st.integers(1, STEPS - 1), st.sampled_from(["stopped", "killed"])), min_size=1, max_size=3)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(breaks=breaks)
def test_a_run_that_breaks_off_anywhere_ends_as_the_unbroken_one(
    unbroken: tuple[str, Left], breaks: list[tuple[int, str]]
):
    """Each break comes some steps after the last one: asked to stop, which saves the step, or killed after it."""
    architecture, expected = unbroken
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        go: Callable[..., Any] = lambda report, stop: train_recipe(recipe(architecture), run, report, stop)  # noqa: E731
        for steps, how in breaks:
            if how == "stopped":
                go(nothing, stop_after(steps))
            else:
                with_kill(go, steps)
            torch.manual_seed(steps)  # another process has other random numbers
            go = lambda report, stop: resume_run(run, report, stop)  # noqa: E731
        go(nothing, lambda: False)
        left = what_is_left(run)
    require_equal(left, expected)


def with_kill(go: Callable[..., Any], steps: int) -> None:
    asked = 0

    def killed() -> bool:
        nonlocal asked
        asked += 1
        if asked == steps:
            raise Killed
        return False

    try:
        go(nothing, killed)
    except Killed:
        return
