"""What is scored when: after saving, on a sample in between, on the whole part at the end."""

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from tests.support.left import require_equal, what_is_left
from tests.support.runs import (
    ARCHITECTURES,
    Events,
    Settings,
    never,
    one_thread,
    resume_tiny,
    same,
    stop_after,
    tiny_recipe,
    train_tiny,
    weights,
)
from tests.training.test_loop import job, scripted
from tfcli.data.batch import Batch, evenly
from tfcli.evaluation.evaluate import evaluate
from tfcli.evaluation.measure import Totals
from tfcli.files import read_json
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.pipeline.training import train_recipe
from tfcli.recipe.loading import load_recorded
from tfcli.records.runs import Evaluated, StepsDone
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.runs.metrics import read_history
from tfcli.training import loop

SAMPLED: Settings = {
    "model": {"dropout": 0.1},
    "train": {
        "steps": 8,
        "evaluate_tokens": 60,
        "save_every": 4,
        "log_every": 3,
        "keep_checkpoints": 2,
        "average_checkpoints": 2,
    },
}


class Killed(BaseException):
    """What no handler of the product waits for."""


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    with one_thread():
        yield


def kill_at(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Die when the loop calls a function of its own for the n-th time."""
    true, calls = getattr(loop, name), count(1)

    def deadly(*args: Any, **settings: Any) -> Any:
        if next(calls) == number:
            raise Killed
        return true(*args, **settings)

    monkeypatch.setattr(loop, name, deadly)


@pytest.mark.parametrize(
    ("name", "number"),
    [*(("total_loss", number) for number in (1, 2, 3, 4)), ("append", 2), ("save_counters", 1), ("save_counters", 2)],
    ids=str,
)
@pytest.mark.parametrize("extra", [{"ema_decay": 0.8}, {}], ids=str)
def test_an_evaluation_that_dies_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], name: str, number: int
):
    """At the end of 8 steps four things may be scored: the weights on the sample, the mean of two checkpoints on it,
    and on the whole part the best ones and the last ones. Every step before a death is still there, and the run ends
    as the one that nobody killed."""
    recipe = tiny_recipe("decoder", SAMPLED, {"train": extra})
    train_tiny(recipe, tmp_path / "unbroken")
    with monkeypatch.context() as patch:
        kill_at(patch, name, number)
        with pytest.raises(Killed):
            train_tiny(recipe, tmp_path / "run")
    saved = max(RunDirectory(tmp_path / "run").checkpoints())
    assert saved == (4 if (name, number) in [("total_loss", 1), ("append", 2), ("save_counters", 1)] else 8)
    assert load_run(tmp_path / "run")
    finished, events = resume_tiny(tmp_path / "run")
    assert (finished.reason, finished.step) == ("done", 8)
    assert [event.step for event in events.of(StepsDone)] == ([6, 8] if saved == 4 else [])
    require_equal(what_is_left(tmp_path / "run"), what_is_left(tmp_path / "unbroken"))


@pytest.mark.parametrize("patience", [0, 1])
def test_a_death_behind_the_change_of_the_best_weights_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: int
):
    """The sample likes those of step 4, and the whole part those of step 8, which are in their place when the process
    dies, and the counters do not say so yet. With patience, step 8 is no checkpoint: it is taken once more."""
    script, found = iter([2.0, 2.5, 2.7, 2.6]), dict[tuple[float, int], float]()

    def by_weights(model: nn.Module, batches: Iterable[Batch], *_: Any) -> Totals:
        scored = float(next(model.parameters()).detach().sum()), sum(batch.tokens for batch in batches)
        return Totals(
            nats=(found[scored] if scored in found else found.setdefault(scored, next(script))), tokens=1, correct=0
        )

    monkeypatch.setattr(loop, "total_loss", by_weights)
    kept = {"steps": 12, "save_every": 5, "patience": 1} if patience else {"steps": 8}
    recipe, run = tiny_recipe("decoder", {"train": {"evaluate_tokens": 60, **kept}}), tmp_path / "run"
    train_tiny(recipe, tmp_path / "unbroken")
    with monkeypatch.context() as patch:
        kill_at(patch, "_saved" if patience else "save_counters", 2)
        with pytest.raises(Killed):
            train_tiny(recipe, run)
    assert max(RunDirectory(run).checkpoints()) == (5 if patience else 8)
    finished, _ = resume_tiny(run)
    assert (finished.best_step, finished.best_loss) == (8, 2.6)
    require_equal(what_is_left(run), what_is_left(tmp_path / "unbroken"))
    assert not [*run.glob(".*")]


def test_a_stop_at_an_evaluation_is_saved_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Step 4 is no checkpoint of its own, but someone asks to stop there, and does not wait for the evaluation."""
    recipe = tiny_recipe("decoder", {"train": {"save_every": 5}})
    with monkeypatch.context() as patch:
        kill_at(patch, "total_loss", 1)
        with pytest.raises(Killed):
            train_tiny(recipe, tmp_path / "run", stop=stop_after(4))
    assert max(RunDirectory(tmp_path / "run").checkpoints()) == 4


@pytest.mark.parametrize("windows", ["documents", "stream"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_sample_is_spread_over_the_whole_part_and_always_the_same(tmp_path: Path, architecture: str, windows: str):
    settings: Settings = {"train": {"evaluate_tokens": 100, "windows": windows}}
    if architecture == "encoder-decoder":
        settings = {"train": {"evaluate_tokens": 100}}
    its_job = job(tiny_recipe(architecture, settings), tmp_path / "run")
    whole, sample = its_job.validation, its_job.sample
    assert sample is not None
    rows = [row.tobytes() for batch in whole.whole() for row in batch.labels]
    one, other = ([batch.labels.tolist() for batch in sample.whole()] for _ in range(2))
    assert one == other
    read = sum(batch.tokens for batch in sample.whole())
    assert read == pytest.approx(100, abs=40)
    assert read < sum(batch.tokens for batch in whole.whole())
    assert len(rows) > sum(len(batch) for batch in one)


def test_numbers_are_evenly_spread():
    for total in (7, 100):
        for chosen in (1, 3, 6):
            numbers = evenly(total, chosen / total)
            assert len(numbers) == len(set(numbers.tolist())) == chosen
            assert np.diff(numbers).max(initial=total / chosen) <= total / chosen + 1
            assert 0 <= numbers[0] <= total / chosen and total - total / chosen - 1 <= numbers[-1] < total


@pytest.mark.parametrize(
    ("losses", "step", "loss"),
    [
        # The sample likes the weights of step 4, the whole part those of step 8, of 2.6: these are kept.
        ([2.0, 2.5, 2.7, 2.6], 8, 2.6),
        # Both like those of step 4.
        ([2.0, 2.5, 2.4, 2.6], 4, 2.4),
        # The last ones are the best: scored once.
        ([2.0, 1.5, 2.6], 8, 2.6),
        # Numbers that are none are never better.
        ([2.0, 2.5, 2.4, float("nan")], 4, 2.4),
        ([2.0, float("nan"), float("nan"), 2.4], 8, 2.4),
    ],
    ids=str,
)
def test_the_better_on_the_whole_part_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: list[float], step: int, loss: float
):
    scripted(monkeypatch, losses)
    run = tmp_path / "run"
    kept: Settings = {"train": {"steps": 8, "evaluate_tokens": 60, "keep_checkpoints": 3}}
    finished, events = train_tiny(tiny_recipe("decoder", kept), run)
    assert (finished.best_step, finished.best_loss) == (step, loss)
    assert same(weights(run / "model.safetensors"), weights(RunDirectory(run).checkpoint(step) / "model.safetensors"))
    assert [event.part for event in events.of(Evaluated)] == ["sample"] * 2 + ["whole"] * (len(losses) - 2)
    history = read_history(run / "metrics.jsonl")
    assert len(history.validation) == 2
    assert history.best is not None
    assert (history.best.step, history.best.loss) == (step, loss)
    again, events = resume_tiny(run)
    assert events.names() == ["StageStarted"]
    assert again == finished


def test_what_is_told_at_the_end_is_the_whole_part_s(tmp_path: Path):
    run = tmp_path / "run"
    finished, events = train_tiny(tiny_recipe("decoder", {"train": {"evaluate_tokens": 60}}), run)
    loaded = load_run(run)
    data = dataset_of_run(loaded.directory, loaded.recipe, lambda event: None)
    assert evaluate(loaded, data).loss == pytest.approx(finished.best_loss, rel=1e-5)
    whole = [event for event in events.of(Evaluated) if event.part == "whole"]
    assert {event.tokens for event in whole} == {data.record().validation.tokens}
    assert finished.best_loss == min(event.loss for event in whole)


def test_a_small_part_is_scored_whole_every_time(tmp_path: Path):
    """As of the stated default, which is more than there is; and the run records it."""
    _, events = train_tiny(tiny_recipe(), tmp_path / "run")
    assert [(event.step, event.part) for event in events.of(Evaluated)] == [(4, "whole"), (8, "whole"), (12, "whole")]
    assert load_recorded(tmp_path / "run" / "recipe.toml").train.evaluate_tokens == 16_384


def test_a_run_of_before_goes_on_with_the_whole_part(tmp_path: Path):
    """Its recipe has no such key, and its part would be large enough for a sample."""
    its_job = job(tiny_recipe("decoder", {"train": {"evaluate_tokens": 60}}), tmp_path / "run")
    assert its_job.sample is not None
    recipe = its_job.run.recipe
    recipe.write_text(recipe.read_text().replace("evaluate_tokens = 60\n", ""))
    state = its_job.run.checkpoint(0) / "state.json"
    older = {"format_version": 3, "step": 0}
    assert read_json(state)["format_version"] == 5
    state.write_text(str(older).replace("'", '"'))
    finished, events = resume_tiny(its_job.run.path)
    assert finished.step == 12
    assert {event.part for event in events.of(Evaluated)} == {"whole"}


def test_the_plain_loss_and_what_is_minimised_are_both_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of an encoder-decoder by default: ε = 0.1 spreads a tenth of the target, which costs more than the right token
    alone as soon as the model knows anything, and the same as it while all are equally likely."""
    recipe = tiny_recipe("encoder-decoder", {"train": {"steps": 30, "log_every": 15, "learning_rate": 0.03}})
    _, events = train_tiny(recipe, tmp_path / "run")
    reports = events.of(StepsDone)
    assert all(report.objective is not None for report in reports)
    assert reports[-1].objective > reports[-1].loss + 0.05  # type: ignore[operator]
    history = read_history(tmp_path / "run" / "metrics.jsonl")
    assert [(point.loss, point.objective) for point in history.training] == [(r.loss, r.objective) for r in reports]
    _, events = train_tiny(tiny_recipe("decoder", {"train": {"steps": 2}}), tmp_path / "other")
    assert [report.objective for report in events.of(StepsDone)] == [None]


def test_reports_go_on_over_an_interruption_with_both_losses(tmp_path: Path):
    recipe = tiny_recipe("encoder-decoder", {"train": {"log_every": 5, "steps": 10}})
    train_tiny(recipe, tmp_path / "unbroken")
    train_tiny(recipe, tmp_path / "run", stop=stop_after(3))
    resume_tiny(tmp_path / "run")
    ours, theirs = (read_history(tmp_path / name / "metrics.jsonl").training for name in ("run", "unbroken"))
    assert [(p.loss, p.objective) for p in ours] == [(p.loss, p.objective) for p in theirs]


def test_an_early_stop_ends_with_the_whole_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scripted(monkeypatch, [1.0, 2.0, 3.0, 2.0])
    events = Events()
    settings: Settings = {"train": {"steps": 50, "patience": 1, "evaluate_tokens": 60}}
    finished = train_recipe(tiny_recipe("decoder", settings), tmp_path / "run", events.append, never)
    assert (finished.reason, finished.step, finished.best_step, finished.best_loss) == ("early", 8, 8, 2.0)
