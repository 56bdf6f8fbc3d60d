"""The loop: what it says, in which order, what it scores, what it keeps, and when it stops."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.runs import ARCHITECTURES, Events, Settings, resume_tiny, same, tiny_recipe, train_tiny, weights
from tfcli.errors import TfcliError
from tfcli.evaluation.measure import Totals
from tfcli.pipeline.datasets import obtain_data
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import CheckpointSaved, Evaluated, StepsDone, TrainingFinished, TrainingStarted
from tfcli.runs.checkpoint import open_checkpoint
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.runs.metrics import read_metrics
from tfcli.runs.weights import model_tensors
from tfcli.training import loop
from tfcli.training.job import TrainingJob, start
from tfcli.training.schedule import learning_rate

Step = tuple[Tensor, Tensor]


def nothing(event: Any) -> None:
    """Receives what nobody looks at."""


def job(recipe: Recipe, out: Path) -> TrainingJob:
    recipe = recipe.resolved()
    tokenizer, data = obtain_data(recipe, nothing)
    return start(recipe, data, tokenizer, RunDirectory(out))


def trained(recipe: Recipe, out: Path) -> Events:
    return Events(loop.train(job(recipe, out)))


def scripted(monkeypatch: pytest.MonkeyPatch, losses: list[float]) -> None:
    """Evaluations find these losses, one after the other."""
    script = iter(losses)
    monkeypatch.setattr(loop, "total_loss", lambda *_: Totals(nats=next(script) * 10, tokens=10, correct=5))


def test_events_come_in_order(tmp_path: Path):
    """7 steps, reported every 2, scored every 3, saved every 4; the last step has all three. A step is
    reported first, then saved, then scored."""
    rhythm = {"train": {"steps": 7, "log_every": 2, "evaluate_every": 3, "save_every": 4}}
    events = trained(tiny_recipe("decoder", rhythm), tmp_path / "run")
    seen = [(type(event).__name__, event.step) for event in events]
    assert seen == [
        ("TrainingStarted", 0),
        ("StepsDone", 2),
        ("Evaluated", 3),
        ("StepsDone", 4),
        ("CheckpointSaved", 4),
        ("StepsDone", 6),
        ("Evaluated", 6),
        ("StepsDone", 7),
        ("CheckpointSaved", 7),
        ("Evaluated", 7),
        ("TrainingFinished", 7),
    ]
    assert events[-1].reason == "done"


def test_zero_means_only_at_the_end(tmp_path: Path):
    rhythm = {"train": {"steps": 5, "log_every": 9, "evaluate_every": 0, "save_every": 0}}
    events = trained(tiny_recipe("decoder", rhythm), tmp_path / "run")
    names = ["TrainingStarted", "StepsDone", "CheckpointSaved", "Evaluated", "TrainingFinished"]
    assert events.names() == names
    assert [event.step for event in events[1:]] == [5, 5, 5, 5]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_the_events_say_is_so(tmp_path: Path, architecture: str):
    settings = {"train": {"steps": 6, "log_every": 3, "grad_accumulation": 2}}
    its_job = job(tiny_recipe(architecture, settings), tmp_path / "run")
    batches = its_job.training.training()
    read = [sum(next(batches).tokens for _ in range(2)) for _ in range(6)]
    events = Events(loop.train(its_job))
    [begun] = events.of(TrainingStarted)
    assert begun.parameters == sum(p.numel() for p in its_job.model.parameters())
    assert (begun.architecture, begun.total_steps, begun.device) == (architecture, 6, "cpu")
    assert begun.tokens_per_step == its_job.training.tokens_per_batch * 2
    assert begun.tokens_per_step == pytest.approx(sum(read) / 6, rel=0.3)
    first, second = events.of(StepsDone)
    assert [first.tokens, second.tokens] == [sum(read[:3]), sum(read)]
    assert first.learning_rate == learning_rate(3, its_job.recipe.train)
    assert first.seconds_left > 0
    assert second.seconds_left < first.seconds_left + 1
    assert first.tokens_per_second > 0
    assert first.seconds < second.seconds <= events[-1].seconds
    assert events.of(TrainingFinished)[0].tokens == sum(read)
    assert events.of(CheckpointSaved)[-1].path == str(its_job.run.checkpoint(6))


def test_a_report_is_the_mean_over_the_target_tokens_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A masked model has another number of targets in every batch, so that the mean of the steps' own
    means would be another number."""
    steps: list[tuple[float, int, float]] = []
    true_step = loop.optimizer_step

    def counted(model: Any, optimizer: Any, batches: Any, **settings: Any) -> Step:
        loss, norm = true_step(model, optimizer, batches, **settings)
        steps.append((loss[0].item(), sum(batch.target_tokens for batch in batches), norm.item()))
        return loss, norm

    monkeypatch.setattr(loop, "optimizer_step", counted)
    events = trained(tiny_recipe("encoder", {"train": {"steps": 6, "log_every": 3}}), tmp_path / "run")
    for report, part in zip(events.of(StepsDone), (steps[:3], steps[3:]), strict=True):
        targets = [count for _, count, _ in part]
        assert len(set(targets)) > 1
        expected = sum(loss * count for loss, count, _ in part) / sum(targets)
        assert report.loss == pytest.approx(expected, rel=1e-5)
        assert report.grad_norm == pytest.approx(part[-1][2])


def test_the_padding_of_a_report_is_that_of_its_batches(tmp_path: Path):
    """Counted from the masks: a pair's own places, and the labels that are none."""
    settings: Settings = {"train": {"steps": 4, "log_every": 2, "grad_accumulation": 1}}
    its_job = job(tiny_recipe("encoder-decoder", settings), tmp_path / "run")
    batches = its_job.training.training()
    shares = []
    for _ in range(2):
        both = [next(batches) for _ in range(2)]
        assert all(batch.decoder_input_ids is not None and batch.padding_mask is not None for batch in both)
        places = sum(batch.input_ids.size + batch.labels.size for batch in both)
        tokens = sum(int(batch.padding_mask.sum()) + int((batch.labels >= 0).sum()) for batch in both)  # type: ignore[union-attr]
        shares.append(1 - tokens / places)
    reports = [event for event in loop.train(its_job) if isinstance(event, StepsDone)]
    assert [event.padding for event in reports] == pytest.approx(shares)
    assert shares[0] > 0


def test_metrics_have_one_line_a_report_and_a_score(tmp_path: Path):
    rhythm = {"train": {"steps": 7, "log_every": 2, "evaluate_every": 3, "save_every": 4}}
    events = trained(tiny_recipe("decoder", rhythm), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    wanted = [event for event in events if isinstance(event, StepsDone | Evaluated)]
    assert Counter(line["event"] for line in lines) == {"step": 4, "evaluated": 3}
    assert [(line["step"], line["loss"]) for line in lines] == [(event.step, event.loss) for event in wanted]


@pytest.mark.parametrize(
    ("architecture", "windows"),
    [*product(("decoder", "encoder"), ("documents", "stream")), ("encoder-decoder", None)],
    ids=str,
)
def test_an_evaluation_covers_the_whole_validation_part(tmp_path: Path, architecture: str, windows: str | None):
    """Text: every stored token but the <s> of each document is predicted once, which is what the manifest
    counts. Masked: every stored token is read once, and those that are labelled are scored. Pairs: ids and
    </s> of every target."""
    recipe = tiny_recipe(architecture, {"train": {"steps": 1, "batch_size": 3, "windows": windows}})
    its_job = job(recipe, tmp_path / "run")
    [score] = Events(loop.train(its_job)).of(Evaluated)
    _, data = obtain_data(recipe.resolved(), nothing)
    counts = data.record().validation
    whole = list(its_job.validation.whole())
    if architecture != "encoder-decoder":
        assert any(batch.padding for batch in whole) == (windows == "documents")
    if architecture == "decoder":
        assert score.tokens == counts.tokens
    elif architecture == "encoder":
        assert sum(batch.tokens for batch in whole) == counts.tokens + counts.documents
        assert score.tokens == sum(int((batch.labels >= 0).sum()) for batch in whole)
        assert score.tokens == pytest.approx(0.15 * counts.tokens, rel=0.2)
    else:
        assert sum(len(batch.labels) for batch in whole) == counts.documents
        lengths = data.pairs("validation").target.lengths
        assert score.tokens == sum(int(length) - 1 for length in lengths)


def test_evaluating_leaves_training_as_it_was(tmp_path: Path):
    """With dropout: a model left in evaluation mode, or random numbers drawn by it, would change what
    follows."""
    base = {"model": {"dropout": 0.2}, "train": {"steps": 9, "log_every": 1}}
    often = trained(tiny_recipe("decoder", base, {"train": {"evaluate_every": 2}}), tmp_path / "a")
    never = trained(tiny_recipe("decoder", base, {"train": {"evaluate_every": 0}}), tmp_path / "b")
    assert [event.loss for event in often.of(StepsDone)] == [event.loss for event in never.of(StepsDone)]


def test_the_best_weights_are_those_of_the_best_evaluation(tmp_path: Path):
    """The rate rises to 1, at which a model that was learning is thrown far away again."""
    wild = {"steps": 24, "warmup_steps": 24, "learning_rate": 1.0, "clip_norm": 0.0, "evaluate_every": 2}
    its_job = job(tiny_recipe("decoder", {"train": wild}), tmp_path / "run")
    at: dict[int, dict[str, Tensor]] = {}
    losses: dict[int, float] = {}
    best: list[bool] = []
    for event in loop.train(its_job):
        if isinstance(event, Evaluated):
            at[event.step] = {n: p.detach().clone() for n, p in model_tensors(its_job.model).items()}
            losses[event.step] = event.loss
            best.append(event.best)
    assert isinstance(event, TrainingFinished)
    lowest = min(losses, key=lambda step: losses[step])
    assert 2 < lowest < 24, "the premise: it learned, and then it got worse"
    assert (event.best_step, event.best_loss) == (lowest, losses[lowest])
    running = [min([*losses.values()][: n + 1]) for n in range(len(losses))]
    improved = [n == 0 or running[n] < running[n - 1] for n in range(len(losses))]
    assert best == improved
    run = tmp_path / "run"
    assert same(weights(run / "model.safetensors"), at[lowest])
    assert same(model_tensors(load_run(run).model), at[lowest])
    assert same(model_tensors(load_run(run, "last").model), at[24])
    assert same(model_tensors(load_run(run, "24").model), at[24])
    assert not same(at[lowest], at[24])


def test_patience_counts_evaluations_without_a_better_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """3.0, 2.0, 2.1 (one), 1.9 (better: counted anew), 1.9 (as good is not better: one), 2.5 (two): stop."""
    scripted(monkeypatch, [3.0, 2.0, 2.1, 1.9, 1.9, 2.5, 0.1, 0.1])
    settings = {"train": {"steps": 50, "evaluate_every": 3, "save_every": 0, "patience": 2}}
    events = trained(tiny_recipe("decoder", settings), tmp_path / "run")
    assert [event.best for event in events.of(Evaluated)] == [True, True, False, True, False, False]
    assert events.names()[-3:] == ["Evaluated", "CheckpointSaved", "TrainingFinished"]
    finished = events[-1]
    assert (finished.reason, finished.step, finished.best_step) == ("early", 18, 12)
    assert finished.best_loss == pytest.approx(1.9)


def test_a_run_that_stopped_early_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scripted(monkeypatch, [1.0, 2.0])
    settings = {"train": {"steps": 50, "evaluate_every": 3, "patience": 1}}
    train_tiny(tiny_recipe("decoder", settings), tmp_path / "run")
    finished, events = resume_tiny(tmp_path / "run")
    assert events.names() == ["StageStarted"]
    assert events[0].reused
    assert finished.step == 6


def test_a_score_that_is_no_number_is_never_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No later one would be less than it."""
    scripted(monkeypatch, [math.nan, 3.0, math.inf, 2.0])
    run = RunDirectory(tmp_path / "run")
    events = trained(tiny_recipe("decoder", {"train": {"steps": 8, "evaluate_every": 2}}), run.path)
    assert [event.best for event in events.of(Evaluated)] == [False, True, False, True]
    assert open_checkpoint(run.checkpoint(8)).progress.best_loss == 2.0


def test_without_patience_it_goes_on_whatever_the_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scripted(monkeypatch, [1.0, 2.0, 3.0, 4.0])
    events = trained(tiny_recipe("decoder", {"train": {"steps": 8, "evaluate_every": 2}}), tmp_path / "run")
    assert (events[-1].reason, events[-1].step, events[-1].best_step) == ("done", 8, 2)


@pytest.fixture(params=["loss", "gradient norm"])
def poison(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """The loss of a step becomes NaN, or its gradient infinite, and so do the weights."""
    true_step = loop.optimizer_step

    def at(fatal: int) -> None:
        done = 0

        def poisoned(model: Any, optimizer: Any, batches: Any, **settings: Any) -> Step:
            nonlocal done
            loss, norm = true_step(model, optimizer, batches, **settings)
            done += 1
            if done == fatal:
                with torch.no_grad():
                    next(model.parameters()).fill_(math.nan)
                if request.param == "loss":
                    loss = loss * math.nan
                else:
                    norm = norm * math.inf
            return loss, norm

        monkeypatch.setattr(loop, "optimizer_step", poisoned)

    at.what = request.param  # type: ignore[attr-defined]
    return at  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("rhythm", "why"),
    [
        ({"log_every": 1, "evaluate_every": 0, "save_every": 4}, "reported"),
        ({"log_every": 50, "evaluate_every": 0, "save_every": 2}, "about to be saved"),
        ({"log_every": 50, "evaluate_every": 3, "save_every": 4}, "about to be scored"),
        ({"log_every": 4, "evaluate_every": 0, "save_every": 4}, "reported two steps later"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("told_at_once", [True, False], ids=["looked at after every step", "with the reports"])
def test_a_loss_that_is_no_number_ends_the_run_and_spares_what_was_saved(
    tmp_path: Path,
    poison: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    rhythm: dict[str, int],
    why: str,
    told_at_once: bool,
):
    """The weights break in step 6, which is named; the checkpoint of step 4 is good, and so are the best weights."""
    poison(6)
    if not told_at_once:
        monkeypatch.setattr(loop, "asking_is_free", lambda device: False)
    run = tmp_path / "run"
    with pytest.raises(TfcliError) as caught:
        trained(tiny_recipe("decoder", {"train": {"steps": 20, **rhythm}}), run)
    message = str(caught.value)
    assert f"The {poison.what} became" in message  # type: ignore[attr-defined]
    assert "at step 6" in message
    assert "the checkpoint of step 4 is kept" in message
    assert "lower train.learning_rate (now 0.01)" in message
    assert caught.value.exit_code == 1
    assert [*RunDirectory(run).checkpoints()] == [4]
    for checkpoint in ("best", "last"):
        load_run(run, checkpoint)  # refuses weights that are not finite
    assert f"--resume {run} --set train.learning_rate=0.001`" in message
    assert all(line["step"] < 6 for line in read_metrics(run / "metrics.jsonl"))


def test_a_loss_that_breaks_before_anything_is_saved_says_so(tmp_path: Path, poison: Callable[[int], None]):
    poison(2)
    with pytest.raises(TfcliError, match="the checkpoint of step 0 is kept"):
        trained(tiny_recipe("decoder"), tmp_path / "run")


def test_a_rate_that_is_far_too_high_is_told_in_one_sentence(tmp_path: Path):
    """No fake: at a rate of 1e38 the second step's numbers leave the range of float32."""
    settings = {"train": {"learning_rate": 1e38, "warmup_steps": 0, "log_every": 1, "save_every": 0}}
    with pytest.raises(TfcliError, match=r"became (nan|inf) at step \d+ \(the checkpoint of step 0 is kept\)"):
        trained(tiny_recipe("decoder", settings), tmp_path / "run")


def test_only_the_last_checkpoint_is_kept(tmp_path: Path):
    trained(tiny_recipe("decoder", {"train": {"steps": 6, "save_every": 1}}), tmp_path / "run")
    assert [*RunDirectory(tmp_path / "run").checkpoints()] == [6]


def test_a_run_that_was_saved_before_it_was_scored_loads(tmp_path: Path):
    its_job = job(tiny_recipe("decoder", {"train": {"evaluate_every": 0, "save_every": 2}}), tmp_path / "run")
    for event in loop.train(its_job):
        if isinstance(event, CheckpointSaved):
            assert same(model_tensors(load_run(tmp_path / "run").model), model_tensors(its_job.model))
            return
    pytest.fail("nothing was saved")


LEARNABLE: dict[str, Settings] = {
    "decoder": {
        "model": {"d_model": 32, "num_layers": 2},
        "train": {"steps": 200, "batch_size": 16, "evaluate_every": 0},
    },
    "encoder": {
        "model": {"d_model": 32, "num_layers": 2, "norm_placement": "pre", "positions": "rotary"},
        "train": {
            "steps": 400,
            "batch_size": 16,
            "warmup_steps": 50,
            "mask_probability": 0.3,
            "evaluate_every": 0,
        },
    },
    "encoder-decoder": {
        "data": {"max_documents": 500},
        "model": {"d_model": 32, "positions": "rotary"},
        "train": {"steps": 200, "batch_size": 16, "learning_rate": 2e-2, "evaluate_every": 0},
    },
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_learns_from_its_context(tmp_path: Path, architecture: str):
    """A model that knew only how frequent each token is could not get below the entropy of the labels'
    frequencies; all end half a nat below it."""
    its_job = job(tiny_recipe(architecture, LEARNABLE[architecture]), tmp_path / "run")
    rows = (batch.labels.flatten().tolist() for batch in its_job.validation.whole())
    labels = Counter(label for row in rows for label in row if label >= 0)
    shares = [count / labels.total() for count in labels.values()]
    entropy = -sum(share * math.log(share) for share in shares)
    [score] = Events(loop.train(its_job)).of(Evaluated)
    assert score.loss < entropy - 0.5, f"{score.loss:.3f} nats against {entropy:.3f}"
