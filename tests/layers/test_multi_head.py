"""Multi-head attention against `torch.nn.MultiheadAttention` with the same weights, and against its definition."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tfcli.errors import UsageError
from tfcli.layers.attention import Span
from tfcli.layers.multi_head import KeysValues, MultiHeadAttention
from tfcli.layers.positions import PositionSignal, attention_positions
from tfcli.recipe.model import ModelSection

from .references import attention_by_definition, attention_reference, draw, randomize, whole_rotation

SECTION = ModelSection(
    d_model=12, num_heads=4, head_dim=3, positions="learned", attention_bias=True, query_key_norm=False
)


def attention(section: ModelSection = SECTION, **kind: bool) -> MultiHeadAttention:
    module = MultiHeadAttention(section, **kind).double()
    randomize(module)
    return module


PADDING = torch.tensor([[True, True, True, True, True], [True, True, True, False, False]])


@pytest.mark.parametrize("kv_heads", [None, 4, 2, 1])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("padding", [None, PADDING], ids=["full", "padded"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "open"])
def test_self_attention_equals_pytorchs(kv_heads, bias, padding, causal):
    ours = attention(replace(SECTION, num_kv_heads=kv_heads, attention_bias=bias), causal=causal)
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
    explicit = ours(x, padding_mask=padding, weights=received)
    torch.testing.assert_close(ours(x, padding_mask=padding), expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(explicit, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(received[0], expected_weights, atol=1e-12, rtol=0)


def test_cross_attention_takes_queries_from_the_input_and_keys_and_values_from_the_memory():
    ours = attention(cross=True)
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
    still = PositionSignal(rotation=whole_rotation(torch.full((5,), 7), 4, 100.0))
    torch.testing.assert_close(module(x, positions=still), module(x), atol=1e-5, rtol=0)
    turning = PositionSignal(rotation=whole_rotation(torch.arange(5), 4, 100.0))
    assert not torch.allclose(module(x, positions=turning), module(x), atol=1e-3)


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
@pytest.mark.parametrize("window", [None, 1, 2, 3], ids=lambda window: f"window {window}")
def test_a_cache_changes_no_output(pieces: list[int], padding: torch.Tensor | None, window: int | None):
    """Fed in pieces, each query sees all keys before it, or those of its window, and none after: T ≠ S from the second
    piece on."""
    module, cache = attention(replace(SECTION, sliding_window=window), causal=True), GrowingCache()
    start, outputs = 0, []
    x = draw(2, 5, 12)
    for length in pieces:
        seen = None if padding is None else padding[:, : start + length]
        outputs.append(module(x[:, start : start + length], padding_mask=seen, cache=cache))
        start += length
    expected = module(x, padding_mask=padding)
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected, atol=1e-12, rtol=0)


def test_dropout_works_in_training_alone():
    module = attention(replace(SECTION, dropout=0.5))
    x = draw(1, 5, 12)
    torch.manual_seed(0)
    assert not torch.allclose(module(x), module(x))
    module.eval()
    torch.testing.assert_close(module(x), attention()(x))


@st.composite
def attentions(pick: st.DrawFn) -> ModelSection:
    """Everything that attention reads of a recipe."""
    positions, merge = pick(
        st.sampled_from(
            [
                ("none", "add"),
                ("rotary", "add"),
                ("alibi", "add"),
                ("t5", "add"),
                ("learned", "query_key"),
                ("sinusoidal", "query_key"),
            ]
        )
    )
    chosen: dict[str, Any] = {
        "d_model": pick(st.sampled_from([6, 12])),
        "num_heads": pick(st.sampled_from([1, 3])),
        "attention_score": pick(st.sampled_from(["scaled_dot", "dot", "additive", "parameter_free"])),
        "attention_softcap": pick(st.sampled_from([None, 0.8])),
        "sliding_window": pick(st.sampled_from([None, 1, 2])),
        "query_key_norm": pick(st.booleans()),
        "norm": pick(st.sampled_from(["layernorm", "rmsnorm"])),
        "norm_affine": pick(st.booleans()),
        "norm_eps": pick(st.sampled_from([1e-5, 0.1])),
    }
    if positions == "rotary":
        chosen["position_layout"] = pick(st.sampled_from(["halves", "interleaved"]))
        chosen["position_base"] = pick(st.sampled_from([10_000.0, 30.0]))
        chosen["position_scaling"] = pick(st.sampled_from([1.0, 3.0]))
    if positions == "t5":
        chosen |= {"position_buckets": 4, "position_max_distance": 4}
    if chosen["attention_score"] != "parameter_free":
        chosen["head_dim"] = pick(st.sampled_from([None, 2, 4]))
        if positions == "rotary":
            chosen["position_dim"] = pick(st.sampled_from([None, 2]))
        chosen["num_kv_heads"] = pick(st.sampled_from([None, 1]))
        chosen["attention_bias"] = pick(st.booleans())
        chosen["attention_output_bias"] = pick(st.sampled_from([None, True, False]))
    try:
        return ModelSection(positions=positions, position_merge=merge, max_seq_len=6, **chosen)
    except UsageError:
        reject()


@settings(max_examples=100, deadline=None)
@given(attentions(), st.sampled_from(["open", "causal", "cross"]), st.booleans())
def test_attention_is_its_definition(section: ModelSection, kind: str, padded: bool):
    """Every setting of attention, with the formula written out in loops, on both paths. Rotary tables are float32."""
    tolerance = 1e-5 if section.positions == "rotary" else 1e-10
    module = attention(section, causal=kind == "causal", cross=kind == "cross")
    positions = attention_positions(section, bidirectional=kind != "causal").double()
    randomize(positions, seed=5)
    signal = PositionSignal() if kind == "cross" else positions(Span(0, 4))
    x = draw(2, 4, section.d_model)
    memory = draw(2, 5, section.d_model, seed=1) if kind == "cross" else x
    real = torch.ones(2, memory.shape[1], dtype=torch.bool)
    real[1, -2:] = not padded
    seen = real[:, None].expand(-1, 4, -1).clone()
    for t in range(4):
        for s in range(memory.shape[1]):
            if kind == "causal" and s > t:
                seen[:, t, s] = False
            if kind != "cross" and section.sliding_window is not None and abs(s - t) >= section.sliding_window:
                seen[:, t, s] = False
    expected = attention_by_definition(module, section, x, memory, seen, signal)
    given_memory, mask = memory if kind == "cross" else None, real if padded else None
    with torch.no_grad():
        for weights in (None, []):
            actual = module(x, given_memory, padding_mask=mask, positions=signal, weights=weights)
            torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


def test_positions_for_queries_and_keys_leave_the_values_by_hand():
    """Q and K from X + Π, V from X (Prince 2023, section 12.3). One head of one dimension, all matrices 1: X = (0, 0,
    3), Π = (0, √ln 2, 0). Row 1 asks with √ln 2; its keys are 0, √ln 2 and 3, its scores 0, ln 2 and 3 √ln 2; the
    values are 0, 0 and 3. Row 0 asks with 0: the mean of the values, 1."""
    section = ModelSection(
        d_model=1, num_heads=1, positions="learned", position_merge="query_key", query_key_norm=False
    )
    module = MultiHeadAttention(section).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(1.0)
    root = torch.tensor(2.0, dtype=torch.float64).log().sqrt()
    added = torch.stack([root * 0, root, root * 0])[:, None]
    x = torch.tensor([0.0, 0.0, 3.0], dtype=torch.float64).view(1, 3, 1)
    output = module(x, positions=PositionSignal(added=added)).flatten()
    far = torch.exp(3 * root)
    assert output[0].item() == pytest.approx(1.0)
    assert output[1].item() == pytest.approx((3 * far / (1 + 2 + far)).item())


@pytest.mark.parametrize("causal", [True, False])
def test_interleaved_turns_are_halves_with_the_rows_of_queries_and_keys_reordered(causal: bool):
    """Row 2i of a head's W^q and W^k moved to i, and row 2i + 1 to i + Dh/2: the outputs are the same."""
    halves = ModelSection(d_model=8, num_heads=2, attention_bias=True, position_layout="halves", query_key_norm=False)
    neighbours = replace(halves, position_layout="interleaved")
    one, other = attention(neighbours, causal=causal), attention(halves, causal=causal)
    order = torch.tensor([0, 2, 1, 3])
    rows = torch.cat((order, order + 4))
    with torch.no_grad():
        for ours, theirs in ((other.query, one.query), (other.key, one.key)):
            ours.weight.copy_(theirs.weight[rows])
            ours.bias.copy_(theirs.bias[rows])
    x = draw(2, 6, 8)
    of_one, of_other = (attention_positions(s, bidirectional=False)(Span(0, 6)) for s in (neighbours, halves))
    torch.testing.assert_close(other(x, positions=of_other), one(x, positions=of_one), atol=1e-12, rtol=0)
    assert not torch.allclose(one(x, positions=of_other), one(x, positions=of_one))


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_normalised_queries_and_keys_do_not_grow_with_the_weights(norm: str):
    """A hundred times W^q changes no weight; without the norm it does. Values are not normalised."""
    section = replace(SECTION, attention_bias=False, norm=norm, norm_eps=1e-12)
    x = draw(1, 5, 12)
    for normalised in (True, False):
        module, weights = attention(replace(section, query_key_norm=normalised)), []
        module(x, weights=weights)
        with torch.no_grad():
            module.query.weight.mul_(100)
        module(x, weights=weights)
        assert torch.allclose(*weights) == normalised
        output = module(x)
        with torch.no_grad():
            module.value.weight.mul_(2)
        torch.testing.assert_close(module(x), 2 * output)


def test_cross_attention_has_no_window():
    """The distance between a target and a source position means nothing."""
    module = attention(replace(SECTION, sliding_window=1), cross=True)
    plain = attention(SECTION, cross=True)
    x, memory = draw(2, 3, 12, seed=1), draw(2, 5, 12, seed=2)
    torch.testing.assert_close(module(x, memory), plain(x, memory))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("of_output", [None, False, True])
def test_the_output_has_its_bias_or_the_others(bias: bool, of_output: bool | None):
    module = attention(replace(SECTION, attention_bias=bias, attention_output_bias=of_output))
    assert [part.bias is not None for part in (module.query, module.key, module.value)] == [bias] * 3
    assert (module.output.bias is not None) == (bias if of_output is None else of_output)


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "additive", "parameter_free"])
def test_the_gradient_of_a_whole_attention(score: Any):
    """Against finite differences by the input and every parameter, with a bias of positions, a cap and norms; a query
    in the padding in front sees nothing."""
    shapes: dict[str, Any] = {} if score == "parameter_free" else {"num_kv_heads": 1, "attention_bias": True}
    section = ModelSection(d_model=4, num_heads=2, positions="t5", position_buckets=4, **shapes)
    section = replace(section, attention_score=score, attention_softcap=2.0, sliding_window=2)
    section = replace(section, query_key_norm=score != "parameter_free")
    module, positions = attention(section, causal=True), attention_positions(section, bidirectional=False).double()
    randomize(positions)
    x, padding = draw(1, 4, 4).requires_grad_(), torch.tensor([[False, True, True, True]])
    parameters = [*module.parameters(), *positions.parameters()]

    def attend(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return module(x, padding_mask=padding, positions=positions(Span(0, 4)))

    assert torch.autograd.gradcheck(attend, [x, *parameters])


def test_dropout_of_attention_has_a_rate_of_its_own():
    assert attention(replace(SECTION, dropout=0.5)).dropout == 0.5
    assert attention(replace(SECTION, dropout=0.5, attention_dropout=0.0)).dropout == 0.0
