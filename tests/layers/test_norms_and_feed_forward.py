"""The parts that work on each token alone: norms, the feed-forward, and the embedding."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.feed_forward import FeedForward, GatedFeedForward, build_feed_forward
from tfcli.layers.norms import LayerNorm, RMSNorm, build_norm
from tfcli.layers.sinusoidal import sinusoidal_encoding
from tfcli.recipe.model import ModelSection

from .references import draw, randomize


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


@pytest.mark.parametrize(("norm", "reference"), [("layernorm", nn.LayerNorm), ("rmsnorm", nn.RMSNorm)])
@pytest.mark.parametrize("eps", [1e-5, 0.5], ids=["small eps", "large eps"])
def test_norms_equal_pytorchs(norm: str, reference: type[nn.Module], eps: float):
    """ε = 0.5 shows where it stands: under the root."""
    ours = build_norm(ModelSection(d_model=6, num_heads=1, norm=norm, norm_eps=eps)).double()
    randomize(ours)
    theirs = reference(6, eps=eps, dtype=torch.float64)
    theirs.load_state_dict(ours.state_dict())
    x = draw(2, 3, 6)
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_statistics_are_a_tokens_own(norm: str):
    """A token among others is normalised as it is alone: statistics across tokens would leak the future."""
    module = build_norm(ModelSection(d_model=6, num_heads=1, norm=norm)).double()
    x = draw(2, 3, 6)
    torch.testing.assert_close(module(x)[1, 2], module(x[1, 2]))


def small(activation: str, bias: bool) -> nn.Module:
    """A feed-forward 2 → 2 → 2 with W₁ = [[1, −1], [2, 0]] (rows are outputs), W₂ = [[1, 1], [0, 3]], gate
    1."""
    section = ModelSection(d_model=2, num_heads=1, d_ff=2, activation=activation, feed_forward_bias=bias)
    module = build_feed_forward(section)
    with torch.no_grad():
        module.up.weight.copy_(torch.tensor([[1.0, -1.0], [2.0, 0.0]]))
        module.output.weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 3.0]]))
        if bias:
            module.up.bias.copy_(torch.tensor([0.5, -1.0]))
            module.output.bias.copy_(torch.tensor([0.0, 100.0]))
        if isinstance(module, GatedFeedForward):
            module.gate.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    return module


def test_relu_feed_forward_by_hand():
    """x = (1, 3): W₁x = (−2, 2), relu (0, 2), W₂ gives (2, 6). With biases: (−1.5, 1) → (0, 1) → (1, 3 +
    100)."""
    x = torch.tensor([1.0, 3.0])
    assert small("relu", bias=False)(x).tolist() == [2.0, 6.0]
    assert small("relu", bias=True)(x).tolist() == [1.0, 103.0]


def test_gelu_feed_forward_is_the_exact_gelu():
    """x = (1, 3): W₁x = (−2, 2), gelu(u) = u Φ(u) with Φ(2) = 0.97725: (−0.04550, 1.95450); W₂ gives their
    sum 1.909 and 3 · 1.95450."""
    expected = torch.tensor([1.9089997, 5.8634996])
    torch.testing.assert_close(small("gelu", bias=False)(torch.tensor([1.0, 3.0])), expected, atol=1e-6, rtol=0)


def test_swiglu_feed_forward_by_hand():
    """x = (1, 3): gate (3, 1) through silu(u) = u / (1 + e^−u): 2.857722 and 0.731059; up (−2, 2); the
    products are −5.715445 and 1.462117; W₂ gives −4.253328 and 4.386351."""
    output = small("swiglu", bias=False)(torch.tensor([1.0, 3.0]))
    torch.testing.assert_close(output, torch.tensor([-4.253328, 4.386351]))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_the_feed_forward_mixes_no_tokens(activation: str):
    module = build_feed_forward(ModelSection(d_model=6, num_heads=1, activation=activation)).double()
    x = draw(2, 4, 6)
    torch.testing.assert_close(module(x)[0, 1], module(x[0, 1]))


def test_the_inner_size_is_chosen_so_that_all_kinds_weigh_the_same():
    """4 D for two matrices; 8/3 D for three, rounded up to 8: D = 96 gives 256 exactly, D = 100 gives 266.7 →
    272."""

    def inner(d_model: int, activation: str) -> int:
        return build_feed_forward(ModelSection(d_model=d_model, num_heads=1, activation=activation)).up.out_features

    assert inner(96, "relu") == inner(96, "gelu") == 384
    assert inner(96, "swiglu") == 256
    assert inner(100, "swiglu") == 272
    assert isinstance(build_feed_forward(ModelSection(activation="gelu")), FeedForward)


def embedding(**settings: object) -> TokenEmbedding:
    section = ModelSection(vocab_size=5, d_model=4, num_heads=2, max_seq_len=6, **settings)  # type: ignore[arg-type]
    module = TokenEmbedding(section)
    randomize(module)
    return module


IDS = torch.tensor([[3, 0, 3], [4, 1, 2]])


def test_an_embedding_is_the_one_hot_product():
    module = embedding(positions="rotary", scale_embeddings=False)
    torch.testing.assert_close(module(IDS), F.one_hot(IDS, 5).float() @ module.weight)


@pytest.mark.parametrize(
    ("positions", "scale_embeddings", "scale"),
    [
        ("sinusoidal", None, 2.0),  # √4
        ("sinusoidal", False, 1.0),
        ("learned", None, 2.0),  # attention begins by copying
        ("learned", False, 1.0),
        ("rotary", None, 2.0),
        ("rotary", False, 1.0),
    ],
)
def test_embeddings_are_scaled_where_the_recipe_says_and_positions_never(positions, scale_embeddings, scale):
    module = embedding(positions=positions, scale_embeddings=scale_embeddings, position_base=100.0)
    added = {
        "sinusoidal": sinusoidal_encoding(6, 4, 100.0),
        "learned": module.positions,
        "rotary": torch.zeros(6, 4),
    }
    torch.testing.assert_close(module(IDS), scale * module.weight[IDS] + added[positions][:3])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_an_offset_goes_on_where_the_cache_ended(positions: str):
    module = embedding(positions=positions)
    torch.testing.assert_close(module(IDS[:, 2:], offset=2), module(IDS)[:, 2:])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(("offset", "length"), [(6, 1), (5, 3), (0, 7)])
def test_a_position_beyond_the_table_is_never_made_up(positions: str, offset: int, length: int):
    """The table has 6 rows. Slices beyond it are short, and 0 rows or 1 row would broadcast without a
    word."""
    with pytest.raises((AssertionError, IndexError, RuntimeError)):
        embedding(positions=positions)(torch.zeros(2, length, dtype=torch.long), offset=offset)


def test_a_fixed_table_is_neither_trained_nor_saved_and_a_learned_one_is_both():
    assert [*embedding(positions="sinusoidal").state_dict()] == ["weight"]
    assert {*embedding(positions="learned").state_dict()} == {"weight", "positions"}
    assert {name for name, _ in embedding(positions="learned").named_parameters()} == {"weight", "positions"}
