"""A whole layer, and a stack of them, against PyTorch's with the same weights."""

import pytest
import torch
from torch import nn

from tfcli.layers.layer import Residual, TransformerLayer
from tfcli.models.stack import Stack
from tfcli.recipe.model import ModelSection

from .references import draw, layer_reference, randomize

PADDING = torch.tensor([[True, True, True, True, True], [True, True, True, False, False]])
FUTURE = torch.ones(5, 5, dtype=torch.bool).triu(1)


def section(placement: str, activation: str = "relu") -> ModelSection:
    return ModelSection(
        d_model=8,
        num_heads=2,
        num_layers=2,
        d_ff=12,
        positions="learned",
        norm="layernorm",
        norm_placement=placement,
        activation=activation,
        attention_bias=True,
        feed_forward_bias=True,
    )


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "open"])
def test_a_layer_equals_pytorchs_encoder_layer(placement: str, activation: str, causal: bool):
    ours = TransformerLayer(section(placement, activation), causal=causal).double()
    randomize(ours)
    theirs = layer_reference(ours, section(placement, activation))
    x = draw(2, 5, 8)
    expected = theirs(x, src_mask=FUTURE if causal else None, src_key_padding_mask=~PADDING)
    torch.testing.assert_close(ours(x, padding_mask=PADDING)[PADDING], expected[PADDING], atol=1e-11, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_layer_with_cross_attention_equals_pytorchs_decoder_layer(placement: str, activation: str):
    ours = TransformerLayer(section(placement, activation), causal=True, cross_attention=True).double()
    randomize(ours)
    theirs = layer_reference(ours, section(placement, activation))
    x, memory = draw(2, 3, 8, seed=1), draw(2, 5, 8, seed=2)
    expected = theirs(x, memory, tgt_mask=FUTURE[:3, :3], memory_key_padding_mask=~PADDING)
    output = ours(x, memory=memory, memory_padding_mask=PADDING)
    torch.testing.assert_close(output, expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_stack_ends_on_a_norm_with_pre_norm_alone(placement: str):
    """Pre-norm leaves the residual stream unnormalised, so that a last norm follows the layers."""
    ours = Stack(section(placement), causal=False).double()
    randomize(ours)
    layers = [layer_reference(layer, section(placement)) for layer in ours.layers]
    last: nn.Module = nn.Identity()
    if placement == "pre":
        last = nn.LayerNorm(8, eps=section(placement).norm_eps, dtype=torch.float64)
        last.load_state_dict(ours.final_norm.state_dict())
    x = draw(2, 5, 8)
    torch.testing.assert_close(ours(x), last(layers[1](layers[0](x))), atol=1e-11, rtol=0)


def test_the_road_around_a_sublayer_by_hand():
    """x = (3, 4), f doubles. RMS of (3, 4) is √12.5. pre: x + 2x/√12.5; post: (9, 12) over its own RMS
    √112.5."""
    x = torch.tensor([3.0, 4.0])
    for placement, expected in (
        ("pre", x + 2 * x / 12.5**0.5),
        ("post", torch.tensor([9.0, 12.0]) / 112.5**0.5),
    ):
        residual = Residual(ModelSection(d_model=2, num_heads=1, norm_placement=placement, norm_eps=1e-12))
        torch.testing.assert_close(residual(x, lambda h: 2 * h), expected)


def test_dropout_hits_the_sublayer_and_never_the_residual():
    """With nearly everything dropped, x itself still comes through a pre-norm road."""
    residual = Residual(ModelSection(d_model=2, num_heads=1, norm_placement="pre", dropout=0.999))
    torch.manual_seed(0)
    x = torch.ones(50, 2)
    assert (residual(x, lambda h: h) == x).float().mean() > 0.9
    assert (residual.eval()(x, lambda h: h) == x).float().mean() == 0
