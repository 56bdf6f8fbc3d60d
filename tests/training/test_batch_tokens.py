"""Training on micro-batches of a number of tokens."""

from pathlib import Path

import pytest
import torch

from tests.support.runs import (
    ARCHITECTURES,
    one_thread,
    resume_tiny,
    same,
    stop_after,
    tiny_recipe,
    train_tiny,
    weights,
)
from tfcli.data.pairs import PairBatches
from tfcli.errors import UsageError
from tfcli.evaluation.batches import build_batches
from tfcli.evaluation.evaluate import evaluate
from tfcli.evaluation.loss import total_loss
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.records.training import TrainingStarted
from tfcli.runs.load import load_run

BUSY = {"model": {"dropout": 0.1}, "train": {"batch_tokens": 96, "grad_accumulation": 2, "windows": "documents"}}
PAIRS = {"train": {"windows": None}}
CPU = torch.device("cpu")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_interrupted_run_becomes_the_unbroken_one(tmp_path: Path, architecture: str) -> None:
    settings = (BUSY, PAIRS) if architecture == "encoder-decoder" else (BUSY,)
    recipe = tiny_recipe(architecture, *settings)
    with one_thread():
        _, events = train_tiny(recipe, tmp_path / "unbroken")
        train_tiny(recipe, tmp_path / "run", stop=stop_after(5))
        torch.manual_seed(987)
        finished, _ = resume_tiny(tmp_path / "run")
    assert same(*(weights(tmp_path / run / "model.safetensors") for run in ("run", "unbroken")))
    # 12 steps of 2 micro-batches of at most 96 places each, nearly full.
    assert 12 * 2 * 60 < finished.tokens <= 12 * 2 * 96
    (started,) = events.of(TrainingStarted)
    assert finished.tokens == pytest.approx(12 * started.tokens_per_step, rel=0.2)


def test_the_score_does_not_depend_on_the_budget(tmp_path: Path) -> None:
    by_size = tiny_recipe("encoder-decoder")
    train_tiny(by_size, tmp_path / "run")
    run = load_run(tmp_path / "run")
    data = dataset_of_run(run.directory, run.recipe, lambda event: None)
    by_tokens = tiny_recipe("encoder-decoder", {"train": {"batch_tokens": 20}})
    one, other = (build_batches(recipe, data, "validation", run.config.roles) for recipe in (by_size, by_tokens))
    assert isinstance(one, PairBatches) and isinstance(other, PairBatches)
    # A pair longer than 20 places is scored all the same: only training refuses it.
    sizes = data.pairs("validation").source.lengths + data.pairs("validation").target.lengths - 1
    assert sizes.max() > 20
    assert sorted(one.order.tolist()) == sorted(other.order.tolist())
    ours, theirs = (total_loss(run.model, batches.whole(), CPU) for batches in (one, other))
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-6)
    assert (ours.tokens, ours.correct) == (theirs.tokens, theirs.correct)
    assert evaluate(run, data).loss == pytest.approx(ours.loss, rel=1e-5)


def test_a_budget_below_the_longest_pair_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    recipe = tiny_recipe("encoder-decoder", {"train": {"batch_tokens": 12}})
    with pytest.raises(UsageError, match=r"batch_tokens = 12 cannot hold the longest example of \d+ tokens"):
        train_tiny(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
