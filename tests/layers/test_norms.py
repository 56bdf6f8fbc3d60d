"""Norms by hand, against PyTorch's, and their gradients."""

import math
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tfcli.layers.norms import LayerNorm, RMSNorm, build_norm
from tfcli.recipe.model import ModelSection

from .references import draw, randomize


def norm(size: int = 6, **chosen: Any) -> nn.Module:
    module = build_norm(ModelSection(d_model=size, num_heads=1, positions="none", **chosen)).double()
    randomize(module)
    return module


def test_layer_norm_by_hand():
    """(1, 3, 5, 7): mean 4, biased variance (9 + 1 + 1 + 9) / 4 = 5, so (−3, −1, 1, 3) / √5; then gain 2 and
    bias 1."""
    norm = LayerNorm(4, eps=1e-12)
    with torch.no_grad():
        norm.weight.fill_(2.0)
        norm.bias.fill_(1.0)
    expected = torch.tensor([-3.0, -1.0, 1.0, 3.0]) / math.sqrt(5) * 2 + 1
    torch.testing.assert_close(norm(torch.tensor([1.0, 3.0, 5.0, 7.0])), expected)


def test_rms_norm_by_hand():
    """(3, 4, 0, 0): mean square 25/4, root 2.5, so (1.2, 1.6, 0, 0); then gain 10. Nothing is centred."""
    norm = RMSNorm(4, eps=1e-12)
    with torch.no_grad():
        norm.weight.fill_(10.0)
    torch.testing.assert_close(norm(torch.tensor([3.0, 4.0, 0.0, 0.0])), torch.tensor([12.0, 16.0, 0.0, 0.0]))


REFERENCES = [
    ({"norm": "layernorm"}, nn.LayerNorm, {}),
    ({"norm": "layernorm", "norm_bias": False}, nn.LayerNorm, {"bias": False}),
    ({"norm": "layernorm", "norm_affine": False}, nn.LayerNorm, {"elementwise_affine": False}),
    ({"norm": "rmsnorm"}, nn.RMSNorm, {}),
    ({"norm": "rmsnorm", "norm_affine": False}, nn.RMSNorm, {"elementwise_affine": False}),
]


@pytest.mark.parametrize(("chosen", "reference", "options"), REFERENCES, ids=str)
@pytest.mark.parametrize("eps", [1e-5, 0.5], ids=["small eps", "large eps"])
def test_norms_equal_pytorchs(chosen: dict[str, Any], reference: type[nn.Module], options: dict[str, bool], eps: float):
    """With the same parameters and no others. ε = 0.5 shows where it stands: under the root."""
    ours = norm(**chosen, norm_eps=eps)
    theirs = reference(6, eps=eps, dtype=torch.float64, **options)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    x = draw(2, 3, 6)
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_statistics_are_a_tokens_own(name: str):
    """A token among others is normalised as it is alone: statistics across tokens would leak the future."""
    module, x = norm(norm=name), draw(2, 3, 6)
    torch.testing.assert_close(module(x)[1, 2], module(x[1, 2]))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=2, max_size=8), st.floats(0.5, 3))
def test_without_gain_a_row_has_mean_0_and_standard_deviation_1(numbers: list[float], factor: float):
    """E4. Up to ε, which is smaller than anything here unless all numbers are alike. A factor changes nothing."""
    x = torch.tensor(numbers, dtype=torch.float64)
    layer = norm(len(numbers), norm="layernorm", norm_affine=False, norm_eps=1e-12)
    rms = norm(len(numbers), norm="rmsnorm", norm_affine=False, norm_eps=1e-12)
    assert layer(x).mean().item() == pytest.approx(0, abs=1e-6)
    if x.std(correction=0) > 1e-2:
        assert layer(x).std(correction=0).item() == pytest.approx(1, abs=1e-6)
        torch.testing.assert_close(layer(x * factor), layer(x), atol=1e-6, rtol=0)
    if x.abs().max() > 1e-1:
        assert rms(x).square().mean().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("chosen", "reference", "options"), REFERENCES, ids=str)
def test_the_gradient_of_a_norm(chosen: dict[str, Any], reference: type[nn.Module], options: dict[str, bool]):
    module, x = norm(4, **chosen), draw(2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: module(x), [x, *module.parameters()])


def test_a_norm_of_a_heads_size():
    """As for queries and keys: Dh gains, and D of them for everything else."""
    section = ModelSection(d_model=12, num_heads=3, positions="none")
    assert build_norm(section, 4).weight.shape == (4,)
    assert build_norm(section).weight.shape == (12,)


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_a_norm_takes_what_autocast_gives_it_without_a_warning(name: str):
    """Queries and keys come as bfloat16 to gains in float32: PyTorch would warn of a slow path."""
    module, x = build_norm(ModelSection(d_model=6, num_heads=1, norm=name)), draw(2, 6)
    torch.set_warn_always(True)  # and not once a process
    try:
        with warnings.catch_warnings(record=True) as received, torch.autocast("cpu", torch.bfloat16):
            warnings.simplefilter("always")
            actual = module(x.bfloat16())
    finally:
        torch.set_warn_always(False)
    assert not received
    torch.testing.assert_close(actual.float(), module(x.float()), atol=0.05, rtol=0.05)
