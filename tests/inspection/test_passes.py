"""What a recorded pass holds fits together, whatever the model: each value is worked out again from those before it."""

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.testing import assert_close

from tests.models.small import inputs, lively, section
from tests.models.strategies import sections
from tfcli.inspection.passes import AttentionPass, LayerPass, StackPass, record_attention, record_model
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.device import prepare_for_inference
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection


def first(model: Transformer) -> list[Tensor]:
    """The first text of the batch that every test of an architecture uses."""
    return [ids[:1] for ids in inputs(model.section.architecture)]


def sigma(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax written out over what may be seen."""
    powers = scores.exp() * mask
    return powers / powers.sum(-1, keepdim=True)


def check_attention(one: AttentionPass, attention: MultiHeadAttention) -> None:
    if attention.score.weight is None and attention.score.cap is None:
        products = torch.einsum("htd,hsd->hts", one.query, one.key) * attention.score.scale
        assert_close(one.scores, products if one.bias is None else products + one.bias)
    assert_close(one.weights, sigma(one.scores, one.mask))
    assert_close(one.mixed, torch.einsum("hts,hsd->htd", one.weights, one.value))
    side_by_side = torch.cat([one.mixed[head] for head in range(len(one.mixed))], dim=-1)
    assert_close(one.output, attention.output(side_by_side))
    values = attention.value(one.value_source).view(len(one.value_source), attention.num_kv_heads, -1).transpose(0, 1)
    assert_close(one.value, values.repeat_interleave(attention.num_heads // attention.num_kv_heads, dim=0))


def check_layer(one: LayerPass, layer: TransformerLayer) -> None:
    check_attention(one.attention, layer.attention)
    if one.cross is not None:
        assert layer.cross_attention is not None
        check_attention(one.cross, layer.cross_attention)
    x = one.before
    steps = [(layer.attention_residual, one.attention.output, one.after_attention)]
    if layer.cross_attention_residual is not None:
        steps.append((layer.cross_attention_residual, one.cross.output, one.after_cross))  # type: ignore[union-attr]
    for residual, sublayer, after in [*steps, (layer.feed_forward_residual, one.feed_forward, one.after)]:
        added = x + sublayer if residual.adds else sublayer
        assert_close(after, added if residual.placement == "pre" else residual.norm(added))
        x = after
    assert_close(one.feed_forward, layer.feed_forward.output(one.inner))
    assert_close(one.feed_forward, layer.feed_forward(one.feed_forward_input))


def check_stack(one: StackPass | None, stack: object) -> None:
    if one is None:
        return
    x = one.embedded
    for layer, module in zip(one.layers, stack.layers, strict=True):  # type: ignore[attr-defined]
        assert_close(layer.before, x)
        check_layer(layer, module)
        x = layer.after
    assert_close(one.hidden, stack.final_norm(x))  # type: ignore[attr-defined]


@torch.inference_mode()
@given(sections(head="linear"))
@settings(max_examples=25, deadline=None)
def test_every_value_follows_from_those_before_it(drawn: ModelSection) -> None:
    model = lively(drawn)
    ids = first(model)
    recorded = record_model(model, ids)
    names = {"encoder-decoder": ("encoder", "decoder"), "decoder": ("", "stack"), "encoder": ("stack", "")}
    for name, passed in zip(names[drawn.architecture], (recorded.encoder, recorded.decoder), strict=True):
        check_stack(passed, getattr(model, name, None))
    assert_close(recorded.last.hidden, model.hidden(*ids)[0])


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_a_model_made_ready_to_predict_gives_the_same(architecture: str) -> None:
    """Its queries, keys and values come from one matrix."""
    model = lively(section(architecture)).float()
    ids = first(model)
    before = record_model(model, ids).last.layers[1].attention
    prepare_for_inference(model, "float32")
    after = record_model(model, ids).last.layers[1].attention
    for name in ("x", "memory", "value_source", "query", "key", "value", "scores", "weights", "mixed", "output"):
        assert_close(getattr(after, name), getattr(before, name), rtol=1e-4, atol=1e-4)


def test_nothing_listens_when_the_pass_is_over() -> None:
    model = lively(section())
    record_model(model, first(model))
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("cross", [False, True])
def test_one_attention_alone(cross: bool) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(section(), causal=not cross, cross=cross).eval()
    x, memory = torch.randn(1, 3, 16), torch.randn(1, 5, 16)
    passed = record_attention(attention, x, memory if cross else None)
    check_attention(passed, attention)
    assert passed.weights.shape == (2, 3, 5 if cross else 3)
    assert_close(passed.x, x[0])
