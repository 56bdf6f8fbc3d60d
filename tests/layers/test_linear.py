"""The biased product for training in bfloat16 on a CPU, against PyTorch's own layer."""

import pytest
import torch
from torch import nn

from tfcli.layers import kernels
from tfcli.layers.kernels import Linear


def layers(bias: bool = True) -> tuple[Linear, nn.Linear]:
    torch.manual_seed(0)
    ours, theirs = Linear(12, 7, bias=bias), nn.Linear(12, 7, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    return ours.train(), theirs.train()


def results(layer: nn.Linear, x: torch.Tensor) -> list[torch.Tensor]:
    """The output under autocast, and the gradients by input, weight and bias."""
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    y.float().sin().sum().backward()
    return [y, *(p.grad for p in (x, *layer.parameters()) if p.grad is not None)]


@pytest.mark.parametrize("shape", [(5, 12), (2, 3, 12), (2, 1, 3, 12)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_output_and_gradients_are_those_of_autocast(shape: tuple[int, ...], bias: bool):
    """Up to the rounding of bfloat16, 1/256; the gradients of the weights are float32, as the weights are."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    ours, theirs = (results(layer, x) for layer in layers(bias))
    assert len(ours) == len(theirs) == (4 if bias else 3)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        assert (mine - other).float().norm() <= other.float().norm() / 256


@pytest.mark.parametrize("how", ["evaluation", "float32", "no bias", "an older processor"])
def test_everywhere_else_it_is_pytorch_s(monkeypatch: pytest.MonkeyPatch, how: str):
    monkeypatch.setattr(kernels, "_BiasedProduct", None)  # would fail where it is called
    monkeypatch.setattr(kernels, "has_bfloat16_products", lambda: how != "an older processor")
    ours, theirs = layers(bias=how != "no bias")
    x = torch.randn(3, 12)
    if how == "evaluation":
        ours.eval(), theirs.eval()
    with torch.autocast("cpu", torch.bfloat16, enabled=how != "float32"):
        assert torch.equal(ours(x), theirs(x))
