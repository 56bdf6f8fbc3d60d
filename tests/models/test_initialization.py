"""Initial weights against the papers that they are named after: standard deviations, bounds, and what they do."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.build import ARCHITECTURES as CLASSES
from tfcli.models.build import build_model, initialize
from tfcli.recipe.model import ModelSection

from .small import ARCHITECTURES, section

WIDE: dict[str, Any] = {
    "vocab_size": 400,
    "d_model": 64,
    "num_layers": 8,
    "num_heads": 4,
    "d_ff": 160,
    "max_seq_len": 80,
    "positions": "learned",
    "norm": "layernorm",
    "attention_bias": True,
    "feed_forward_bias": True,
    "tie_embeddings": False,
    "head": "transform",
    "head_bias": True,
}
"""Every matrix has 4,096 numbers or more, so that its measured deviation lies within 5 % of the true one."""


def matrices(wanted: ModelSection) -> dict[str, Tensor]:
    """What is drawn; after asserting that gains are 1 and biases 0."""
    drawn = {}
    for name, parameter in build_model(wanted).named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "norm." in name:
            assert (parameter == 1).all(), name
        else:
            drawn[name] = parameter.detach()
    return drawn


def assert_deviation(drawn: dict[str, Tensor], name: str, expected: float) -> None:
    spread = 5 / drawn[name].numel() ** 0.5  # seven standard errors of a standard deviation
    assert drawn[name].std().item() == pytest.approx(expected, rel=spread), name
    assert abs(drawn[name].mean().item()) < spread * expected, name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_initial_weights_have_their_standard_deviations(architecture: str):
    """0.02 for matrices, 0.02 / √(2·8) = 0.005 for those that add to the residual stream of 8 layers; biases
    0, gains 1. Over ≥ 4,096 numbers the measured deviation lies within 5 %."""
    wanted = section(
        architecture,
        d_model=64,
        num_layers=8,
        vocab_size=200,
        max_seq_len=64,
        positions="learned",
        norm="layernorm",
        attention_bias=True,
        feed_forward_bias=True,
        tie_embeddings=False,
        initialization="gpt2",
    )
    for name, parameter in build_model(wanted).named_parameters():
        if "norm" in name:
            assert (parameter == (0 if name.endswith("bias") else 1)).all(), name
        elif name.endswith("bias"):
            assert (parameter == 0).all(), name
        else:
            residual = name.endswith("output.weight")
            assert parameter.std().item() == pytest.approx(0.005 if residual else 0.02, rel=0.05), name
            assert abs(parameter.mean().item()) < 0.002, name


HEADS = [
    {},
    {"num_heads": 1, "num_layers": 3, "attention_bias": True},
    {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8},
    {"num_heads": 4, "num_kv_heads": 1, "head_dim": 16},
]


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_copying_attention_begins_by_passing_on_what_it_attends_to(architecture: str, heads: dict[str, int]):
    """With W^v W^vᵀ = I and W^o = √(2/L) · W^vᵀ, shared by the query heads of a group, attention to a single token
    returns √(2/L) · x, for L = 8 one half. Key-value heads that together have as many dimensions as x lose nothing
    of it."""
    wanted = section(architecture, **{"num_layers": 8, **heads})
    attentions = [part for part in build_model(wanted).modules() if isinstance(part, MultiHeadAttention)]
    assert len(attentions) == wanted.num_layers * (3 if architecture == "encoder-decoder" else 1)
    generator = torch.Generator().manual_seed(0)
    query, token = (torch.randn(2, 1, 16, generator=generator) for _ in range(2))
    gain = (2 / wanted.num_layers) ** 0.5
    for attention in attentions:
        values = attention.value.weight
        torch.testing.assert_close(values @ values.T, torch.eye(16), atol=1e-5, rtol=0)
        if wanted.kv_heads == wanted.num_heads:
            torch.testing.assert_close(attention.output.weight, gain * values.T)
        # As cross-attention, and as self-attention of one token.
        torch.testing.assert_close(attention(query, token), gain * token, atol=1e-5, rtol=0)
        torch.testing.assert_close(attention(token), gain * token, atol=1e-5, rtol=0)


def test_copying_attention_returns_the_mean_of_what_it_weighs_alike():
    """Queries of 0 weigh all keys alike: half the mean for L = 8."""
    (attention, *_) = (m for m in build_model(section(num_layers=8)).modules() if isinstance(m, MultiHeadAttention))
    memory = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0))
    mean = memory.mean(dim=1, keepdim=True)
    torch.testing.assert_close(attention(torch.zeros(1, 1, 16), memory), mean / 2, atol=1e-5, rtol=0)


def test_few_key_value_heads_pass_on_the_part_of_a_token_that_they_hold():
    """Two key-value heads of 4 hold 8 of 16 dimensions: a token within their rows passes, one at right angles to
    them is not seen."""
    wanted = section(num_layers=8, num_heads=4, num_kv_heads=2)
    attention = next(part for part in build_model(wanted).modules() if isinstance(part, MultiHeadAttention))
    values = attention.value.weight
    torch.testing.assert_close(values @ values.T, torch.eye(8), atol=1e-5, rtol=0)
    token = torch.randn(1, 1, 16, generator=torch.Generator().manual_seed(0))
    held = token @ values.T @ values
    assert held.norm() > 0.1 and (token - held).norm() > 0.1
    torch.testing.assert_close(attention(held), held / 2, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention(token - held), torch.zeros_like(token), atol=1e-5, rtol=0)


def test_layers_copy_by_different_matrices():
    values = [p for name, p in build_model(section()).named_parameters() if name.endswith("value.weight")]
    assert not torch.allclose(*values)


def test_scaled_embeddings_start_small_so_that_a_token_and_its_position_weigh_alike():
    """Times √64 they have a standard deviation of 1; the rows of a sinusoidal table have a mean square of
    1/2."""
    built = build_model(section(d_model=64, vocab_size=500, positions="sinusoidal"))
    assert (built.embedding.weight * 8).std().item() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_before_training_the_loss_is_that_of_guessing(architecture: str):
    """Small initial weights give nearly equal logits: the cross-entropy over 11 tokens starts near ln 11 =
    2.398."""
    built = build_model(section(architecture, initialization="gpt2")).eval()
    ids = torch.arange(11)[None]
    logits = built(ids, ids) if architecture == "encoder-decoder" else built(ids)
    losses = torch.nn.functional.cross_entropy(logits[0], (ids[0] + 5) % 11)
    assert losses.item() == pytest.approx(2.398, abs=0.1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bert_is_one_deviation_cut_off_at_two(architecture: str):
    """A normal distribution without what lies beyond 2 σ has a standard deviation of σ √(1 − 4 φ(2) / (2 Φ(2) − 1)) =
    0.8796 σ, with φ(2) = 0.05399 and Φ(2) = 0.97725. Nothing is smaller for lying before a residual."""
    extra = {"token_types": 40} if architecture == "encoder" else {}
    drawn = matrices(section(architecture, **WIDE, **extra, initialization="bert", init_std=0.05))
    for name, matrix in drawn.items():
        assert_deviation(drawn, name, 0.8796 * 0.05)
        assert 0.09 < matrix.abs().max() <= 0.1, name


@pytest.mark.parametrize("merge", ["add", "query_key"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vaswani2017_is_glorots_uniform_and_embeddings_of_one_over_the_root_of_d(architecture: str, merge: str):
    """Glorot and Bengio 2010, equation 16: uniform within ± √(6 / (in + out)), with the variance 2 / (in + out)."""
    extra = {"token_types": 40} if architecture == "encoder" else {}
    drawn = matrices(section(architecture, **WIDE, **extra, position_merge=merge, initialization="vaswani2017"))
    for name, matrix in drawn.items():
        if "embedding." in name or name.endswith("table"):
            assert_deviation(drawn, name, 64**-0.5)
            assert matrix.abs().max() > 3 * 64**-0.5, "normal, and not uniform"
        else:
            limit = (6 / sum(matrix.shape)) ** 0.5
            assert_deviation(drawn, name, limit / 3**0.5)
            assert 0.99 * limit < matrix.abs().max() <= limit, name


def test_t5_goes_by_what_comes_in():
    """N(0, 1) for embeddings and head; 1/√in elsewhere: 64 = D, 160 = F, and 4 heads of 24 = 96 before W^o; W^q has
    1/√(64 · 24), for T5's scores are not divided by √24."""
    settings = WIDE | {"positions": "t5", "position_buckets": 400, "position_max_distance": 999, "head_dim": 24}
    drawn = matrices(section("encoder-decoder", **settings, initialization="t5", share_embeddings=False))
    of_part = {
        "query": (64 * 24) ** -0.5,
        "key": 64**-0.5,
        "value": 64**-0.5,
        "attention.output": 96**-0.5,
        "gate": 64**-0.5,
        "up": 64**-0.5,
        "feed_forward.output": 160**-0.5,
        "relative_bias": 64**-0.5,
        "transform": 64**-0.5,
        "head": 1.0,
        "embedding": 1.0,
    }
    for name in drawn:
        part = next(part for part in of_part if name.removesuffix(".weight").endswith(part))
        assert_deviation(drawn, name, of_part[part])
    assert {"embedding.weight", "target_embedding.weight", "head.weight"} <= drawn.keys()


def test_t5_is_as_transformers_begins():
    """The same deviations, matrix by matrix, as in a fresh T5 of the same shape."""
    transformers = pytest.importorskip("transformers", reason="the dev extra brings it")
    config = transformers.T5Config(
        vocab_size=400, d_model=64, d_kv=24, d_ff=160, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu"
    )
    torch.manual_seed(0)
    theirs = dict(transformers.T5Model(config).named_parameters())
    shape = WIDE | {"positions": "t5", "num_layers": 2, "head_dim": 24, "attention_bias": False}
    drawn = matrices(section("encoder-decoder", **shape, initialization="t5"))
    bias = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    attention, forward = "encoder.block.1.layer.0.SelfAttention", "encoder.block.1.layer.1.DenseReluDense"
    names = {
        "embedding.weight": "shared.weight",
        "encoder.layers.1.attention.query.weight": f"{attention}.q.weight",
        "encoder.layers.1.attention.key.weight": f"{attention}.k.weight",
        "encoder.layers.1.attention.value.weight": f"{attention}.v.weight",
        "encoder.layers.1.attention.output.weight": f"{attention}.o.weight",
        "encoder.layers.1.feed_forward.gate.weight": f"{forward}.wi_0.weight",
        "encoder.layers.1.feed_forward.up.weight": f"{forward}.wi_1.weight",
        "encoder.layers.1.feed_forward.output.weight": f"{forward}.wo.weight",
        "decoder.positions.relative_bias.weight": bias,
    }
    for ours, other in names.items():
        assert drawn[ours].shape == theirs[other].shape, ours
        spread = 8 / drawn[ours].numel() ** 0.5
        assert drawn[ours].std().item() == pytest.approx(theirs[other].std().item(), rel=spread), ours


@pytest.mark.parametrize("initialization", ["copying", "gpt2", "bert", "vaswani2017", "t5"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_initialization_fills_every_kind_of_parameter(architecture: str, initialization: str):
    """Nothing is left as the memory happened to be (here NaN), and nothing that is drawn is constant."""
    variants: list[dict[str, Any]] = [
        {"positions": "t5", "attention_score": "additive", "query_key_norm": True},
        {"positions": "learned", "position_merge": "query_key", "embedding_norm": True, "head": "transform"},
        {"positions": "learned", "tie_embeddings": False, "position_merge": "concat", "head_bias": True},
        {"positions": "alibi", "attention_score": "parameter_free"},
    ]
    for variant in variants:
        wanted = section(architecture, **variant, initialization=initialization)
        built = CLASSES[architecture](wanted)
        with torch.no_grad():
            for parameter in built.parameters():
                parameter.fill_(torch.nan)
        initialize(built, wanted, torch.Generator().manual_seed(0))
        for name, parameter in built.named_parameters():
            assert parameter.isfinite().all(), name
            assert name.endswith("bias") or "norm." in name or parameter.std() > 0, name


def test_copying_is_gpt2_but_for_values_outputs_and_scaled_embeddings():
    copying, gpt2 = (matrices(section("decoder", **WIDE, initialization=name)) for name in ("copying", "gpt2"))
    for name in gpt2:
        if "value" in name or "attention.output" in name:
            continue
        assert_deviation(copying, name, 64**-0.5 if name == "embedding.weight" else gpt2[name].std().item())


def test_scores_begin_at_the_same_size_whatever_their_scale():
    """T5's smaller queries stand for the division by √Dh: unscaled scores begin with a variance of 1."""
    wanted = section("decoder", **WIDE | {"positions": "none"}, initialization="t5", attention_score="dot")
    attention = build_model(wanted).stack.layers[0].attention
    x = torch.randn(1, 300, 64, generator=torch.Generator().manual_seed(0))
    query, key = (part(x).view(300, 4, 16).transpose(0, 1) for part in (attention.query, attention.key))
    assert (query @ key.transpose(1, 2)).var().item() == pytest.approx(1.0, rel=0.1)
