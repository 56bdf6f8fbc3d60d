"""A benchmark of steps takes the very steps of a training."""

import math
from pathlib import Path

import pytest

from tests.support.runs import same, tiny_recipe, train_tiny, weights
from tfcli.data.loader import build_batches
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.records.runs import StepsDone
from tfcli.runs.load import load_run
from tfcli.runs.weights import model_tensors
from tfcli.training.job import StepBenchmark


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_its_weights_are_those_of_the_run_to_the_last_bit(tmp_path: Path, architecture: str):
    settings = {"model": {"dropout": 0.1}, "train": {"steps": 4, "log_every": 1, "grad_accumulation": 2}}
    recipe = tiny_recipe(architecture, settings)
    _, events = train_tiny(recipe, tmp_path / "run")
    run = load_run(tmp_path / "run")
    data = dataset_of_run(run.directory, run.recipe, lambda _: None)
    batches = build_batches(run.recipe, data, "train", run.config.roles).training(0)
    benchmark = StepBenchmark(run.recipe, batches)
    losses = [float(benchmark.step()) for _ in range(4)]
    assert losses == pytest.approx([event.loss for event in events.of(StepsDone)], rel=1e-6)
    last = run.directory.checkpoint(4) / "model.safetensors"
    assert same(model_tensors(benchmark.parts.model), weights(last))
    assert benchmark.recipe == run.recipe, "the run decides nothing that the benchmark decides otherwise"


def test_without_batches_it_reads_random_ids():
    recipe = tiny_recipe("decoder", {"model": {"vocab_size": 50}, "train": {"context": 20, "grad_accumulation": 3}})
    benchmark = StepBenchmark(recipe)
    first = float(benchmark.step())
    assert benchmark.tokens == 3 * 4 * 20
    assert (benchmark.steps, benchmark.recipe.train.precision) == (1, "float32")
    assert float(StepBenchmark(recipe).step()) == first


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd", "inverse_sqrt", "constant"])
def test_it_may_take_more_steps_than_the_training(schedule: str):
    """From the last one on, at the rate of the last one."""
    settings = {"model": {"vocab_size": 50}, "train": {"steps": 2, "schedule": schedule}}
    benchmark = StepBenchmark(tiny_recipe("decoder", settings))
    rates = []
    for _ in range(4):
        assert math.isfinite(float(benchmark.step()))
        rates.append(benchmark.parts.optimizers[0].param_groups[0]["lr"])
    assert rates[1:] == [rates[1]] * 3
