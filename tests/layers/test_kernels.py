"""PyTorch's private functions, taken away one by one: what stands behind each gives the same."""

import pytest
import torch
from torch.nn import functional as F

from tests.models.test_inference import lively, predicted
from tests.support.runs import tiny_recipe
from tfcli.layers import kernels
from tfcli.layers.kernels import Int8Linear, PrepackedLinear
from tfcli.models.device import prepare_for_inference
from tfcli.training.job import StepBenchmark, resolve_for_machine
from tfcli.training.memory import predict_memory

PRIVATE = (
    "linear_pointwise",
    "reorder_linear_weight",
    "is_bfloat16_supported",
    "int8_matmul",
    "softmax_backward_data",
    "native_dropout",
    "foreach_lerp",
)


def refuse(*_arguments: object, **_options: object) -> None:
    """As PyTorch's dispatcher does with arguments that an operator does not take."""
    raise RuntimeError("aten::nothing() is missing value for argument")


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def results() -> dict[str, torch.Tensor]:
    """What every function gives for the same numbers."""
    rows, weight, bias = drawn(5, 32), drawn(7, 32, 1)[..., 0].contiguous(), drawn(7)
    quantized, scale = (weight * 20).to(torch.int8), bias.abs().bfloat16()
    averages = [weight.clone(), bias.clone()]
    kernels.lerp_all(averages, [drawn(7, 32), drawn(7)], 0.25)
    return {
        "biased": kernels.biased_product(rows, weight, bias),
        "unbiased": kernels.biased_product(rows, weight, None),
        "packed": kernels.biased_product(rows, kernels.packed(weight), bias),
        "int8": kernels.int8_product(rows.bfloat16(), quantized, scale).float(),
        "softmax": kernels.softmax_gradient(drawn(3, 4, 9).double(), drawn(3, 4, 9).double().softmax(-1)),
        "average": averages[0],
    }


@pytest.mark.parametrize("how", [None, refuse], ids=["gone", "changed"])
@pytest.mark.parametrize("name", PRIVATE)
def test_without_it_the_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch, name: str, how: object):
    assert kernels.find("nothing._of_that_name") is None
    before = results()
    monkeypatch.setattr(kernels, name, how)
    for kind, found in results().items():
        torch.testing.assert_close(found, before[kind], atol=1e-5, rtol=2**-6 if kind == "int8" else 1e-5)


def test_without_its_own_word_the_processor_s_flags_tell_of_bfloat16(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernels, "is_bfloat16_supported", None)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    for flags, expected in (({"avx512bw", "avx512dq", "avx512vl", "fma"}, True), ({"avx2", "fma"}, False)):
        monkeypatch.setattr(kernels, "cpu_flags", lambda flags=flags: flags)
        assert kernels.has_bfloat16_products.__wrapped__() is expected


@pytest.mark.parametrize("how", [None, refuse], ids=["gone", "changed"])
def test_dropout_without_its_kernel_keeps_its_share_and_tells_which(monkeypatch: pytest.MonkeyPatch, how: object):
    x = torch.full((400, 50), 2.0)
    for kernel in (kernels.native_dropout, how):
        monkeypatch.setattr(kernels, "native_dropout", kernel)
        left, survivors = kernels.dropped_out(x, 0.25)
        torch.testing.assert_close(left, x * survivors / 0.75)
        assert survivors.float().mean().item() == pytest.approx(0.75, abs=0.01)


def test_layers_for_prediction_are_the_same_without_any(monkeypatch: pytest.MonkeyPatch):
    weight, bias, x = drawn(40, 24), drawn(40), drawn(2, 3, 24)
    rounded = Int8Linear(weight, bias)(x)
    model = lively(attention_bias=True)
    expected = predicted(model)
    for name in PRIVATE:
        monkeypatch.setattr(kernels, name, None)
    torch.testing.assert_close(PrepackedLinear(weight, bias)(x), F.linear(x, weight, bias))
    torch.testing.assert_close(Int8Linear(weight, bias)(x), rounded, atol=2e-2, rtol=2**-6)
    prepare_for_inference(model)
    torch.testing.assert_close(predicted(model), expected, atol=1e-4, rtol=1e-4)


def test_a_training_goes_the_same_way_without_any(monkeypatch: pytest.MonkeyPatch):
    """Three steps in bfloat16, by rows, with biases: the losses are those with the kernels up to rounding."""
    recipe = tiny_recipe(
        "decoder",
        {
            "model": {"vocab_size": 50, "attention_bias": True},
            "train": {"precision": "bfloat16", "attention": "rows", "device": "cpu"},
        },
    )

    def losses() -> list[float]:
        trial = StepBenchmark(recipe)
        return [float(trial.step()) for _ in range(3)]

    before = losses()
    for name in PRIVATE:
        monkeypatch.setattr(kernels, name, None)
    assert losses() == pytest.approx(before, rel=5e-3)


def test_without_fake_tensors_memory_is_that_of_weights_gradients_and_moments(monkeypatch: pytest.MonkeyPatch):
    """Gradients and moments to the byte."""
    recipe = tiny_recipe("decoder", {"model": {"vocab_size": 50, "num_layers": 3}, "train": {"device": "cpu"}})
    recipe = recipe.resolved()
    recipe = resolve_for_machine(recipe)
    exact = predict_memory(recipe)

    def gone(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(kernels.importlib, "import_module", gone)
    least = predict_memory(recipe)
    assert (least.optimizer, least.gradients) == (exact.optimizer, exact.gradients)
    assert least.weights == pytest.approx(exact.weights, rel=0.3)
    assert least.peak <= exact.peak
    kernels.allow_recompiles(8)  # changes nothing, and raises nothing
