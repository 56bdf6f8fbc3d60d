"""A model that only predicts: the same predictions by other products."""

from typing import Any

import pytest
import torch

from tests.layers.test_inference_linear import needs_kernels
from tfcli.errors import UsageError
from tfcli.models import device
from tfcli.models.build import build_model
from tfcli.models.device import prepare_for_inference
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

VARIANTS: list[dict[str, Any]] = [
    {},
    {"architecture": "encoder", "attention_bias": True, "norm": "layernorm", "head": "transform", "head_bias": True},
    {"architecture": "encoder-decoder", "tie_embeddings": False, "share_embeddings": False},
    {"num_kv_heads": 2, "query_key_norm": True, "activation": "swiglu"},
    {"positions": "sinusoidal", "position_merge": "query_key", "attention_bias": True, "feed_forward_bias": True},
    {"positions": "sinusoidal", "attention_score": "parameter_free", "num_heads": 1},
]


def lively(**settings: Any) -> Transformer:
    sizes = {"vocab_size": 40, "d_model": 32, "num_layers": 2, "num_heads": 4, "max_seq_len": 12}
    return build_model(ModelSection(**{**sizes, "init_std": 0.3, "initialization": "gpt2", **settings})).eval()


@torch.inference_mode()
def predicted(model: Transformer) -> torch.Tensor:
    ids = torch.arange(22).view(2, 11)
    return model(ids, ids) if model.section.architecture == "encoder-decoder" else model(ids)


@needs_kernels
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@pytest.mark.parametrize("large", [0, 2**17])
def test_a_prepared_model_predicts_the_same(settings: dict[str, Any], large: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device, "_LARGE", large)
    model = lively(**settings)
    expected = predicted(model)
    prepare_for_inference(model)
    torch.testing.assert_close(predicted(model), expected, atol=1e-4, rtol=1e-4)


@needs_kernels
@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_rounded_weights_predict_nearly_the_same(settings: dict[str, Any], precision: Any):
    model = lively(**settings)
    expected = predicted(model).log_softmax(-1)
    prepare_for_inference(model, precision)
    actual = predicted(model).float().log_softmax(-1)
    assert not torch.equal(actual, expected)
    assert (actual - expected).abs().mean() < 0.15 * expected.std()


@needs_kernels
def test_a_matrix_that_is_not_shared_is_let_go():
    model = lively(tie_embeddings=False)
    prepare_for_inference(model, "int8")
    assert [name for name, p in model.named_parameters() if p.dim() > 1] == ["embedding.weight"]


def test_int8_without_a_kernel_is_refused_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UsageError, match="int8 weights need an x86 processor"):
        prepare_for_inference(lively(), "int8")


def test_elsewhere_a_model_stays_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    model = lively()
    names = [name for name, _ in model.named_parameters()]
    prepare_for_inference(model)
    assert [name for name, _ in model.named_parameters()] == names
