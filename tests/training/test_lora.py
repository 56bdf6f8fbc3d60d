"""Trainings of adapters: what is frozen stays, what is kept is merged, and an interrupted one is the unbroken one."""

import math
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.left import require_equal, what_is_left
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
from tests.support.workers import in_workers, train_among
from tests.training.test_memory import decided
from tfcli.errors import UsageError
from tfcli.layers.lora import LoraLinear
from tfcli.pipeline.training import branch_run, resume_run
from tfcli.planning.plan import outline
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import StepsDone, TrainingStarted
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.training.job import StepBenchmark
from tfcli.training.memory import count_parameters, predict_memory, synthetic_batches

LORA: Settings = {"train": {"adapter": "lora", "adapter_rank": 4, "adapter_scale": 6.0, "log_every": 1}}
BUSY: Settings = {
    "model": {"dropout": 0.2},
    "train": {
        "grad_accumulation": 2,
        "ema_decay": 0.8,
        "save_every": 3,
        "keep_checkpoints": 3,
        "average_checkpoints": 3,
        "evaluate_tokens": 60,
        "skip_nonfinite": 1,
    },
}


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def bases(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of each architecture."""
    folder = tmp_path_factory.mktemp("bases")
    with one_thread():
        for architecture in ARCHITECTURES:
            train_tiny(tiny_recipe(architecture), folder / architecture)
    return folder


def adapting(bases: Path, architecture: str, *settings: Settings) -> Recipe:
    return tiny_recipe(architecture, LORA, {"train": {"init": str(bases / architecture)}}, *settings)


def merged(run: Path, step: int) -> dict[str, torch.Tensor]:
    """W + 6/4 B A of a checkpoint, as it is written."""
    stored = weights(RunDirectory(run).checkpoint(step) / "model.safetensors")
    found = {name: tensor for name, tensor in stored.items() if ".lora_" not in name}
    for name in stored:
        if name.endswith(".lora_a"):
            module = name.removesuffix(".lora_a")
            found[f"{module}.weight"] = stored[f"{module}.weight"] + 1.5 * stored[f"{module}.lora_b"] @ stored[name]
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_run_keeps_the_sum_and_its_checkpoints_keep_the_parts(tmp_path: Path, bases: Path, architecture: str):
    """The first loss is that of full training from the same weights; the base is byte for byte that of the initial run
    at the end; the run's weights are those of a plain model, and so are its checkpoint's where it is loaded."""
    run, base = tmp_path / "run", weights(bases / architecture / "model.safetensors")
    finished, events = train_tiny(adapting(bases, architecture), run)
    full = tiny_recipe(architecture, {"train": {"init": str(bases / architecture), "log_every": 1, "steps": 1}})
    _, expected = train_tiny(full, tmp_path / "full")
    assert events.of(StepsDone)[0].loss == expected.of(StepsDone)[0].loss
    stored = weights(RunDirectory(run).checkpoint(12) / "model.safetensors")
    assert same({name: stored[name] for name in base}, base)
    factors = {name: tensor for name, tensor in stored.items() if name not in base}
    started = events.of(TrainingStarted)[0]
    assert sum(tensor.numel() for tensor in factors.values()) == started.adapter_parameters > 0
    assert started.parameters == sum(tensor.numel() for tensor in base.values())
    moments = weights(RunDirectory(run).checkpoint(12) / "optimizer.safetensors")
    assert {name.partition(".")[2] for name in moments if name.startswith("exp_avg.")} == factors.keys()
    best = weights(run / "model.safetensors")
    assert same(best, merged(run, finished.best_step or 0)), "to the bit"
    assert not same(best, base) and best.keys() == base.keys()
    last = dict(load_run(run, "last").model.named_parameters())
    assert same({name: last[name] for name in best}, merged(run, 12))


def test_the_trained_model_computes_what_the_merged_one_does(tmp_path: Path, bases: Path):
    """The loss that was measured with A and B apart is that of the kept weights, to 1e-6 in float32."""
    run = tmp_path / "run"
    finished, _ = train_tiny(adapting(bases, "decoder"), run)
    again, _ = train_tiny(
        tiny_recipe("decoder", {"train": {"init": str(run), "learning_rate": 1e-30, "steps": 1}}), tmp_path / "again"
    )
    assert again.best_loss == pytest.approx(finished.best_loss, abs=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_interrupted_training_becomes_the_unbroken_one(tmp_path: Path, bases: Path, architecture: str):
    """With dropout, a moving average, a mean of checkpoints and a sample that is scored in between."""
    recipe, run = adapting(bases, architecture, BUSY), tmp_path / "run"
    train_tiny(recipe, tmp_path / "unbroken")
    train_tiny(recipe, run, stop=stop_after(4))
    torch.manual_seed(987)
    resume_tiny(run, stop=stop_after(3))
    resume_tiny(run)
    require_equal(what_is_left(run), what_is_left(tmp_path / "unbroken"))


def test_averages_are_those_of_what_is_trained(tmp_path: Path, bases: Path):
    """After two updates of decay min(0.8, 2/11), then 3/12: both by hand, and of A and B alone. A run of one step after
    that keeps their product; so does a branch at that checkpoint."""
    moving: Settings = {"train": {"ema_decay": 0.8, "steps": 2, "save_every": 1, "keep_checkpoints": 3}}
    run = tmp_path / "run"
    train_tiny(adapting(bases, "decoder", moving), run)
    first, second, third = (weights(RunDirectory(run).checkpoint(n) / "model.safetensors") for n in (0, 1, 2))
    stored = weights(RunDirectory(run).checkpoint(2) / "optimizer.safetensors")
    averages = {name.removeprefix("average."): t for name, t in stored.items() if name.startswith("average.")}
    assert averages.keys() == {name for name in first if ".lora_" in name}
    for name, tensor in averages.items():
        after_one = first[name] + (1 - 2 / 11) * (second[name] - first[name])
        torch.testing.assert_close(tensor, after_one + (1 - 3 / 12) * (third[name] - after_one))
    name = "stack.layers.0.attention.query"
    product = third[f"{name}.weight"] + 1.5 * averages[f"{name}.lora_b"] @ averages[f"{name}.lora_a"]
    branch_run(run, 2, tmp_path / "branch", {"train": {"steps": 3}})
    kept = weights(tmp_path / "branch" / "model.safetensors")
    torch.testing.assert_close(kept[f"{name}.weight"], product)
    assert kept.keys() == weights(bases / "decoder" / "model.safetensors").keys()


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_several_processes_train_what_one_does(tmp_path: Path, bases: Path, parallel: str):
    """With a rank that two processes cannot halve; the second half of the steps is taken by one alone."""
    more: Settings = {"train": {"parallel": parallel, "adapter_rank": 5, "precision": "float32"}}
    recipe = adapting(bases, "encoder-decoder", more)
    _, events = train_tiny(recipe, tmp_path / "alone")
    in_workers(2, train_among, recipe, tmp_path / "run", 6)
    _, later = resume_tiny(tmp_path / "run")
    losses = [[step.loss for step in one.of(StepsDone)] for one in (events, later)]
    assert losses[1] == pytest.approx(losses[0][6:], rel=1e-5) and len(losses[1]) == 6
    ours, theirs = (weights(tmp_path / name / "model.safetensors") for name in ("run", "alone"))
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in theirs)


@pytest.mark.parametrize("how", [{"attention": "rows"}, {"activation_checkpointing": True}], ids=str)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_other_paths_compute_the_same(architecture: str, how: dict[str, Any]):
    losses = []
    for settings in ({"attention": "fused"}, how):
        more = {"train": {"precision": "float32", **settings}, "model": {"num_heads": 4, "num_kv_heads": 2}}
        benchmark = StepBenchmark(decided(LORA, more, architecture=architecture))
        losses.append([float(benchmark.step()) for _ in range(4)])
        assert any(isinstance(module, LoraLinear) for module in benchmark.parts.model.modules())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][0] != losses[0][3]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_adapters_alone_learn_a_batch(architecture: str):
    """Beside weights that know nothing, forty steps bring its loss down by a tenth."""
    recipe = decided(LORA, {"train": {"learning_rate": 0.03, "warmup_steps": 0}}, architecture=architecture)
    benchmark = StepBenchmark(recipe, repeat(next(synthetic_batches(recipe))))
    losses = [float(benchmark.step()) for _ in range(40)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.slow
def test_compiled_it_computes_the_same():
    """In bfloat16, too, whose rounding then falls elsewhere."""
    for precision, limit in (("float32", 1e-5), ("bfloat16", 0.02)):
        ways = [{"train": {"compile": way, "precision": precision}} for way in ("off", "on")]
        one, two = (StepBenchmark(decided(LORA, way)) for way in ways)
        for _ in range(3):
            assert float(one.step()) == pytest.approx(float(two.step()), rel=limit)


def test_memory_and_numbers_are_those_of_what_is_trained():
    """A layer of D = 64 with F = 256 and 4 matrices of attention: of rank 4, 4 · (4 · 128 + 3 · 320) numbers where the
    feed-forward is gated. Adam holds 8 bytes for each, a gradient 4."""
    sizes: Settings = {"model": {"d_model": 64, "num_layers": 3, "d_ff": 256, "activation": "swiglu"}}
    full, lora = decided(sizes), decided(sizes, LORA)
    numbers = 3 * 4 * (4 * 128 + 3 * 320)
    assert count_parameters(lora) == (count_parameters(full)[0], numbers)
    memory, of_all = predict_memory(lora), predict_memory(full)
    assert (memory.gradients, memory.optimizer) == (4 * numbers, 8 * numbers)
    assert memory.weights == of_all.weights + 4 * numbers
    assert memory.peak < of_all.peak
    found, whole = (outline(recipe, vocab_size_is_most=False) for recipe in (lora, full))
    assert (found.parameters, found.adapter_parameters) == (whole.parameters, numbers)
    assert 2 / 3 * whole.flops_per_step < found.flops_per_step < 0.75 * whole.flops_per_step


REFUSED = [
    ({"train": {"adapter": "dora"}}, "train.adapter = \"dora\" is not known; choose 'lora'"),
    ({"train": {"adapter_rank": 0}}, "train.adapter_rank = 0 is out of range; it must be at least 1"),
    ({"train": {"adapter_scale": 0}}, "train.adapter_scale = 0 is out of range; it must be more than 0"),
    ({"train": {"optimizer": "muon"}}, "train.optimizer = 'muon' moves whole matrices"),
]


@pytest.mark.parametrize(("settings", "sentence"), REFUSED, ids=lambda one: str(one)[:40])
def test_a_wrong_recipe_is_refused(settings: Settings, sentence: str):
    with pytest.raises(UsageError) as error:
        tiny_recipe("decoder", LORA, settings)
    assert str(error.value).startswith(sentence)


def test_what_cannot_be_adapted_is_refused_before_anything_is_written(tmp_path: Path, bases: Path):
    """A run that has no matrix of such a rank, and none at all."""
    with pytest.raises(UsageError, match=r"train.adapter_rank = 17 is more than a matrix of 16×16"):
        train_tiny(adapting(bases, "decoder", {"train": {"adapter_rank": 17}}), tmp_path / "run")
    with pytest.raises(UsageError, match=r"changes a model that is there, and none is named; name its run: --init RUN"):
        train_tiny(tiny_recipe("decoder", LORA), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_resume_keeps_the_adapter(tmp_path: Path, bases: Path):
    run = tmp_path / "run"
    train_tiny(adapting(bases, "decoder"), run, stop=stop_after(2))
    with pytest.raises(UsageError, match=r"train.adapter_rank is 4 in this run, and with 5 it would be another one"):
        resume_run(run, lambda event: None, lambda: False, {"train": {"adapter_rank": 5}})
    assert math.isfinite(resume_tiny(run)[0].best_loss or math.nan)
