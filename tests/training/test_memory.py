"""What a training will take, and that one which cannot fit is refused before anything is written."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from tests.support.runs import tiny_recipe
from tfcli.errors import UsageError
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe
from tfcli.training import memory
from tfcli.training.job import StepBenchmark, resolve_for_machine
from tfcli.training.memory import synthetic_batches
from tfcli.training.objective import TrainingLoss

CPU = torch.device("cpu")
ARCHITECTURES = ("decoder", "encoder", "encoder-decoder")


def decided(*settings: dict, architecture: str = "decoder") -> Recipe:
    """A tiny recipe over 50 ids, as a run would have it."""
    recipe = tiny_recipe(architecture, {"model": {"vocab_size": 50}}, *settings).resolved()
    return resolve_for_machine(recipe)


def test_what_fits_to_the_byte_passes_and_one_byte_less_does_not(monkeypatch: pytest.MonkeyPatch):
    """Refused is what takes more than 1 / 0.9 of what there is, without what the allocator may yet give back."""
    recipe = decided()
    predicted = replace(memory.predict_memory(recipe), peak=10_000_000, allocator=1_000_000)
    monkeypatch.setattr(memory, "predict_memory", lambda recipe: predicted)
    monkeypatch.setattr(memory, "memory_of", lambda device: 8_100_000)
    memory.require_memory(recipe)
    monkeypatch.setattr(memory, "memory_of", lambda device: 8_099_999)
    with pytest.raises(UsageError, match=r"takes 0.009 GB with micro-batches of 4 sequences of 32 tokens.*0.0081 GB"):
        memory.require_memory(recipe)


def test_seven_thousand_million_parameters_are_told_with_their_memory(monkeypatch: pytest.MonkeyPatch):
    """6.74 · 10⁹ · 16 bytes = 108 GB."""
    monkeypatch.setattr(memory, "memory_of", lambda device: 24 * 10**9)
    recipe = build_recipe(preset("llama"), {"model": {"vocab_size": 32_000}, "train": {"device": "cpu"}})
    with pytest.raises(UsageError, match=r"6,738,415,616 parameters.*108 GB.*a memory of 24 GB; choose a smaller one"):
        memory.require_memory(recipe)


def test_this_machine_and_this_process_have_some_memory():
    assert 10**7 < memory.process_memory() <= memory.peak_memory(CPU) < memory.memory_of(CPU) < 10**14


def test_weights_gradients_and_moments_by_hand():
    """50 · 8 tied embeddings; a layer of 4 · 8² attention, 3 · 8 · 24 feed-forward and 2 · 8 gains; a last gain of 8:
    400 + 256 + 576 + 16 + 8 = 1,256 parameters of 4 bytes. The two tables of 32 positions and 4 numbers a head come
    to the weights. Muon remembers one number of the 256 + 576 in matrices, and Adam two of the others."""
    sizes = {"model": {"d_model": 8, "num_heads": 2, "d_ff": 24, "query_key_norm": False}}
    adamw = memory.predict_memory(decided(sizes))
    assert adamw.gradients == 4 * 1_256
    assert 0 <= adamw.weights - 4 * (1_256 + 2 * 32 * 4) < 512, "and the vocabulary may be one token more"
    assert adamw.optimizer == 2 * 4 * 1_256
    muon = memory.predict_memory(decided(sizes, {"train": {"optimizer": "muon", "ema_decay": 0.9}}))
    assert muon.optimizer == 4 * (2 * 1_256 - 832 + 1_256)


@pytest.mark.parametrize(
    ("architecture", "precision", "masking"),
    [
        *((architecture, precision, False) for architecture in ARCHITECTURES for precision in ("float32", "bfloat16")),
        ("decoder", "float32", True),
        ("encoder", "bfloat16", True),
    ],
)
def test_an_estimate_holds_what_autograd_saves(architecture: str, precision: str, masking: bool):
    """Independently: the storages that the backward pass of a real model keeps."""
    settings = {"precision": precision, "batch_size": 16, "document_masking": masking}
    recipe = decided({"train": settings}, architecture=architecture)
    benchmark = StepBenchmark(recipe)
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = TrainingLoss(benchmark.parts.model, recipe.train)(next(synthetic_batches(recipe)))
    assert loss.isfinite().all()
    saved = sum(kept.values())
    most = memory.estimate_step_memory(recipe, 16)
    assert saved <= most["peak"] <= 1.6 * saved


def test_activations_grow_with_the_batch_and_weights_do_not():
    one, two = (memory.predict_memory(decided({"train": {"batch_size": size}})) for size in (8, 16))
    assert (two.weights, two.gradients, two.optimizer) == (one.weights, one.gradients, one.optimizer)
    assert two.activations == pytest.approx(2 * one.activations, rel=0.05)
    assert one.peak < two.peak


def test_a_deep_model_is_estimated_by_two_shallow_ones(monkeypatch: pytest.MonkeyPatch):
    recipe = decided({"model": {"num_layers": 7}})
    exact = memory.estimate_step_memory(recipe, 4)
    monkeypatch.setattr(memory, "TRACED_LAYERS", 2)
    stretched = memory.estimate_step_memory(recipe, 4)
    assert stretched["weights"] == exact["weights"]
    assert stretched["gradients"] == exact["gradients"]
    assert stretched["peak"] == pytest.approx(exact["peak"], rel=0.02)


def test_logits_are_told_from_a_feed_forward_of_the_same_size():
    """Each of 4 · 32 positions has 50 numbers of 4 bytes in either."""
    plain = memory.estimate_step_memory(decided(), 4)
    alike = decided({"model": {"d_ff": 50, "num_layers": 4}})
    assert memory.estimate_step_memory(alike, 4)["logits"] <= 1.1 * plain["logits"]


def test_the_logits_of_an_evaluation_are_counted_by_hand():
    """Of 16 · 32 tokens 256 at a time, 20,000 numbers of 4 bytes each, and their log-probabilities beside them. A step
    holds less, in blocks of the vocabulary."""
    recipe = decided({"model": {"vocab_size": 20_000}})
    assert memory.estimate_step_memory(recipe, 16)["logits"] == 2 * 256 * 20_000 * 4


def test_checkpointing_of_activations_leaves_little_of_them():
    deep = {"model": {"num_layers": 8}}
    plain = memory.predict_memory(decided(deep))
    spared = memory.predict_memory(decided(deep, {"train": {"activation_checkpointing": True}}))
    assert spared.activations < 0.5 * plain.activations


MEASURE = """
import sys, torch
from tests.training.test_memory import measured_recipe
from tfcli.evaluation.measure import total_loss
from tfcli.training.memory import peak_memory, predict_memory
from tfcli.training.memory import synthetic_batches
from tfcli.training.job import StepBenchmark
recipe = measured_recipe(*sys.argv[1:])
predicted = predict_memory(recipe).peak
benchmark = StepBenchmark(recipe)
for _ in range(3):
    float(benchmark.step())
total_loss(benchmark.parts.model, [next(synthetic_batches(recipe))], torch.device("cpu"))
print(predicted, peak_memory(torch.device("cpu")))
"""


def measured_recipe(
    architecture: str, d_model: str, precision: str, vocab_size: str = "2000", adapter: str = ""
) -> Recipe:
    """Large enough that the model is seen beside the interpreter."""
    adapters = {"adapter": adapter} if adapter else {}
    size = {"d_model": int(d_model), "num_layers": 4, "num_heads": 4, "max_seq_len": 128, "vocab_size": int(vocab_size)}
    return decided(
        {"model": size, "train": {"batch_size": 16, "precision": precision, **adapters}}, architecture=architecture
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")
@pytest.mark.parametrize(
    "shape",
    [
        ("decoder", "256", "float32"),
        ("encoder", "256", "bfloat16"),
        ("encoder-decoder", "128", "float32"),
        ("decoder", "64", "float32", "40000"),
        ("decoder", "256", "float32", "2000", "lora"),
        ("encoder", "256", "bfloat16", "2000", "lora"),
    ],
    ids=lambda shape: "-".join(shape),
)
def test_the_peak_of_a_process_is_predicted_within_a_tenth(shape: tuple[str, ...]):
    """Of three steps and an evaluation."""
    done = subprocess.run([sys.executable, "-c", MEASURE, *shape], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    predicted, measured = map(int, done.stdout.split())
    assert predicted == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_larger_batch_is_told_from_smaller_ones(monkeypatch: pytest.MonkeyPatch, architecture: str):
    recipe = decided(architecture=architecture)
    monkeypatch.setattr(memory, "TRACED_TOKENS", 10**9)
    exact = memory.estimate_step_memory(recipe, 20)
    monkeypatch.setattr(memory, "TRACED_TOKENS", 8 * 32)
    assert memory.estimate_step_memory(recipe, 20) == exact


def test_a_batch_that_no_machine_holds_is_refused_before_it_is_drawn():
    """10¹² sequences of 32 ids are 256 TB of ids alone."""
    with pytest.raises(UsageError, match=r"Training takes .* GB with micro-batches of 1000000000000 sequences"):
        memory.require_memory(decided({"train": {"batch_size": 10**12}}))
