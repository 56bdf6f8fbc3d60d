"""Whether torch.compile is used: the written rule, and that a translated model computes the same."""

import shutil

import pytest
import torch

from tests.models.small import ids, model
from tfcli.errors import UsageError
from tfcli.training import compilation
from tfcli.training.compilation import choose_compile, compile_layers

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("device", "steps", "triton", "chosen"),
    [(CUDA, 500, True, "on"), (CUDA, 499, True, "off"), (CUDA, 5000, False, "off"), (CPU, 5000, True, "off")],
)
def test_auto_translates_for_a_gpu_and_a_training_that_is_long_enough(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, steps: int, triton: bool, chosen: str
):
    monkeypatch.setattr(compilation.importlib.util, "find_spec", lambda name: triton or None)
    assert choose_compile("auto", device, steps) == chosen


def test_without_a_compiler_the_wish_is_refused_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compilation.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=r"train\.compile = 'on' needs a C\+\+ compiler"):
        choose_compile("on", CPU, 1000)
    assert choose_compile("off", CPU, 1000) == "off"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_translated_model_computes_the_same():
    network = model("decoder").float().train()
    names, plain = list(network.state_dict()), network(ids())
    compile_layers(network)
    torch.testing.assert_close(network(ids()), plain, rtol=1e-4, atol=1e-5)
    assert list(network.state_dict()) == names, "checkpoints do not change"
