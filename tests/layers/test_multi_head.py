"""Multi-head attention against `torch.nn.MultiheadAttention` with the same weights."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tfcli.layers.multi_head import KeysValues, MultiHeadAttention
from tfcli.layers.rotary import rotation
from tfcli.recipe.model import ModelSection

from .references import attention_reference, draw, randomize

SECTION = ModelSection(d_model=12, num_heads=4, head_dim=3, positions="learned", attention_bias=True)


def attention(section: ModelSection = SECTION) -> MultiHeadAttention:
    module = MultiHeadAttention(section).double()
    randomize(module)
    return module


PADDING = torch.tensor([[True, True, True, True, True], [True, True, True, False, False]])


@pytest.mark.parametrize("kv_heads", [None, 4, 2, 1])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("padding", [None, PADDING], ids=["full", "padded"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "open"])
def test_self_attention_equals_pytorchs(kv_heads, bias, padding, causal):
    ours = attention(replace(SECTION, num_kv_heads=kv_heads, attention_bias=bias))
    theirs = attention_reference(ours, 12)
    x = draw(2, 5, 12)
    expected, expected_weights = theirs(
        x,
        x,
        x,
        key_padding_mask=None if padding is None else ~padding,
        attn_mask=torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None,
        average_attn_weights=False,
    )
    received: list[torch.Tensor] = []
    explicit = ours(x, padding_mask=padding, causal=causal, weights=received)
    torch.testing.assert_close(ours(x, padding_mask=padding, causal=causal), expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(explicit, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(received[0], expected_weights, atol=1e-12, rtol=0)


def test_cross_attention_takes_queries_from_the_input_and_keys_and_values_from_the_memory():
    ours = attention()
    theirs = attention_reference(ours, 12)
    x, memory = draw(2, 3, 12, seed=1), draw(2, 5, 12, seed=2)
    expected, _ = theirs(x, memory, memory, key_padding_mask=~PADDING)
    torch.testing.assert_close(ours(x, memory, padding_mask=PADDING), expected, atol=1e-12, rtol=0)
    assert not torch.allclose(ours(x, memory, padding_mask=PADDING), ours(x, memory))


def test_the_size_of_a_head_is_free_of_the_models():
    """Three heads of 6 over D = 12: W^q is 12 × 18 and W^o is 18 × 12."""
    module = attention(replace(SECTION, num_heads=3, head_dim=6))
    assert module.query.weight.shape == (18, 12)
    assert module.output.weight.shape == (12, 18)
    assert module(draw(1, 4, 12)).shape == (1, 4, 12)


def test_each_key_value_head_serves_neighbouring_query_heads():
    """Four query heads with the same weights on two key-value heads: heads 0, 1 agree and 2, 3 agree, the
    pairs not."""
    module = attention(replace(SECTION, num_kv_heads=2))
    with torch.no_grad():
        module.query.weight.copy_(module.query.weight[:3].repeat(4, 1))
        module.query.bias.copy_(module.query.bias[:3].repeat(4))
    received: list[torch.Tensor] = []
    module(draw(1, 5, 12), weights=received)
    first, second, third, fourth = received[0][0]
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(third, fourth)
    assert not torch.allclose(first, third)


def test_rotation_turns_queries_and_keys_and_leaves_the_values():
    """At one and the same position every angle is the same, distances are 0, and nothing may change."""
    module = attention(replace(SECTION, num_heads=3, head_dim=4))
    x = draw(1, 5, 12)
    torch.testing.assert_close(
        module(x, rotation=rotation(torch.full((5,), 7), 4, 100.0)), module(x), atol=1e-5, rtol=0
    )
    turned = module(x, rotation=rotation(torch.arange(5), 4, 100.0))
    assert not torch.allclose(turned, module(x), atol=1e-3)


class GrowingCache:
    """The simplest thing that keeps the protocol: everything projected so far."""

    def __init__(self) -> None:
        self.parts: list[KeysValues] = []

    def keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        self.parts.append(project())
        keys, values = zip(*self.parts, strict=True)
        return torch.cat(keys, dim=2), torch.cat(values, dim=2)


@pytest.mark.parametrize("pieces", [[5], [1, 1, 1, 1, 1], [3, 2], [1, 4], [2, 1, 2]], ids=str)
@pytest.mark.parametrize("padding", [None, PADDING.flip(1)], ids=["full", "padded in front"])
def test_a_cache_changes_no_output(pieces: list[int], padding: torch.Tensor | None):
    """Fed in pieces, each query sees all keys before it and none after: T ≠ S from the second piece on."""
    module, cache, start, outputs = attention(), GrowingCache(), 0, []
    x = draw(2, 5, 12)
    for length in pieces:
        seen = None if padding is None else padding[:, : start + length]
        outputs.append(module(x[:, start : start + length], padding_mask=seen, causal=True, cache=cache))
        start += length
    expected = module(x, padding_mask=padding, causal=True)
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected, atol=1e-12, rtol=0)


def test_dropout_works_in_training_alone():
    module = attention(replace(SECTION, dropout=0.5))
    x = draw(1, 5, 12)
    torch.manual_seed(0)
    assert not torch.allclose(module(x), module(x))
    module.eval()
    torch.testing.assert_close(module(x), attention()(x))
