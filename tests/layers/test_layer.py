"""A whole layer, and a stack of them, against PyTorch's with the same weights."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from tfcli.layers.layer import Residual, TransformerLayer
from tfcli.models.transformer import Stack
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
        query_key_norm=False,
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
@pytest.mark.parametrize("cross", [False, True], ids=["alone", "with memory"])
def test_a_layer_without_any_bias_equals_pytorchs(placement: str, cross: bool):
    """PyTorch's bias=False leaves biases out of attention, feed-forward and norms alike."""
    chosen = replace(section(placement), attention_bias=False, feed_forward_bias=False, norm_bias=False)
    ours = TransformerLayer(chosen, causal=True, cross_attention=cross).double()
    randomize(ours)
    assert not [name for name, _ in ours.named_parameters() if "bias" in name]
    theirs, x, memory = layer_reference(ours, chosen), draw(2, 3, 8, seed=1), draw(2, 5, 8, seed=2)
    if cross:
        expected = theirs(x, memory, tgt_mask=FUTURE[:3, :3])
        torch.testing.assert_close(ours(x, memory=memory), expected, atol=1e-11, rtol=0)
    else:
        torch.testing.assert_close(ours(x), theirs(x, src_mask=FUTURE[:3, :3]), atol=1e-11, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_every_sublayer_has_a_road_of_its_own(placement: str, norm: str):
    """pre: x + f(norm(x)); post: norm(x + f(x)), sublayer after sublayer, with norms that are not shared."""
    chosen = replace(section(placement), norm=norm)
    layer = TransformerLayer(chosen, causal=True, cross_attention=True).double()
    randomize(layer)
    x, memory = draw(2, 3, 8, seed=1), draw(2, 5, 8, seed=2)
    h = x
    for norm_of, f in (
        (layer.attention_residual.norm, layer.attention),
        (layer.cross_attention_residual.norm, lambda h: layer.cross_attention(h, memory)),
        (layer.feed_forward_residual.norm, layer.feed_forward),
    ):
        h = h + f(norm_of(h)) if placement == "pre" else norm_of(h + f(h))
    torch.testing.assert_close(layer(x, memory=memory), h, atol=1e-12, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_gradient_of_a_layer(placement: str):
    chosen = ModelSection(
        d_model=4, num_heads=2, d_ff=3, norm_placement=placement, positions="none", activation="geglu"
    )
    layer = TransformerLayer(chosen, causal=True, cross_attention=True).double()
    randomize(layer)
    inputs = [draw(1, 3, 4).requires_grad_(), draw(1, 2, 4, seed=1).requires_grad_()]
    assert torch.autograd.gradcheck(lambda x, memory, *_: layer(x, memory=memory), [*inputs, *layer.parameters()])


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_stack_ends_on_a_norm_with_pre_norm_alone(placement: str):
    """Pre-norm leaves the residual stream unnormalised, so that a last norm follows the layers."""
    ours = Stack(section(placement), 2, causal=False).double()
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
    for placement, expected in (("pre", x + 2 * x / 12.5**0.5), ("post", torch.tensor([9.0, 12.0]) / 112.5**0.5)):
        residual = Residual(ModelSection(d_model=2, num_heads=1, norm_placement=placement, norm_eps=1e-12))
        torch.testing.assert_close(residual(x, lambda h: 2 * h), expected)


def test_dropout_hits_the_sublayer_and_never_the_residual():
    """With nearly everything dropped, x itself still comes through a pre-norm road."""
    residual = Residual(ModelSection(d_model=2, num_heads=1, norm_placement="pre", dropout=0.999))
    torch.manual_seed(0)
    x = torch.ones(50, 2)
    assert (residual(x, lambda h: h) == x).float().mean() > 0.9
    assert (residual.eval()(x, lambda h: h) == x).float().mean() == 0


@pytest.mark.parametrize(("placement", "expected"), [("pre", [[3.0, -1.0]]), ("post", [[1.0, -1.0]])])
def test_without_its_residual_a_sublayer_stands_alone(placement: Any, expected: list[list[float]]):
    """f(norm(x)) and norm(f(x)) for f(h) = 1 + 2h: x = (5, 1) is (1, -1) normalised, f(x) = (11, 3)."""
    model = ModelSection(d_model=2, num_heads=1, norm="layernorm", norm_placement=placement, residuals=False)
    given = Residual(replace(model, norm_eps=1e-12))(torch.tensor([[5.0, 1.0]]), lambda h: 1 + 2 * h)
    torch.testing.assert_close(given, torch.tensor(expected))


def test_parallel_sublayers_read_the_same_vectors():
    """x + attention(norm x) + feed-forward(norm' x), each by itself."""
    ours = TransformerLayer(replace(section("pre"), parallel_residual=True), causal=True).double()
    randomize(ours)
    x = draw(2, 5, 8)
    attended = ours.attention(ours.attention_residual.norm(x), padding_mask=PADDING)
    worked = ours.feed_forward(ours.feed_forward_residual.norm(x))
    torch.testing.assert_close(ours(x, padding_mask=PADDING), x + attended + worked, atol=1e-12, rtol=0)
