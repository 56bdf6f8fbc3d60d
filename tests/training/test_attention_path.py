"""Which way attention goes: the written rule, and that a model obeys."""

import pytest
import torch

from tests.models.small import model
from tfcli.layers import multi_head
from tfcli.training.precision import choose_attention

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("device", "precision", "context", "chosen"),
    [
        (CPU, "bfloat16", 512, "rows"),
        (CPU, "bfloat16", 513, "fused"),
        (CPU, "float32", 64, "fused"),
        (CUDA, "bfloat16", 64, "fused"),
    ],
)
def test_auto_goes_by_rows_on_a_cpu_in_bfloat16(device: torch.device, precision: str, context: int, chosen: str):
    assert choose_attention("auto", device, precision, context) == chosen


@pytest.mark.parametrize("wanted", ["fused", "rows"])
def test_what_is_asked_for_is_done(wanted):
    assert choose_attention(wanted, CPU, "float32", 10_000) == wanted


@pytest.mark.parametrize("path", ["rows", "fused"])
def test_all_attention_of_a_model_goes_that_way_in_training_alone(monkeypatch: pytest.MonkeyPatch, path):
    network = model("encoder-decoder")
    calls = {"row_attention": 0, "fused_attention": 0}
    for name in calls:
        original = getattr(multi_head, name)

        def counted(*args, _name=name, _original=original, **options):
            calls[_name] += 1
            return _original(*args, **options)

        monkeypatch.setattr(multi_head, name, counted)
    network.use_in_training(path)
    ids = torch.arange(6)[None]
    network.train()(ids, ids)
    other = {"rows": "fused_attention", "fused": "row_attention"}[path]
    assert calls[other] == 0, "two layers in the encoder, two with two attentions each in the decoder"
    assert sum(calls.values()) == 6
    network.eval()(ids, ids)
    assert calls["fused_attention"] == (6 if path == "rows" else 12)
