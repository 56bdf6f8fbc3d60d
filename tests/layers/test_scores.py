"""Attention scores with numbers worked out by hand, and their gradients against finite differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tfcli.layers.attention import Score, causal_mask, explicit_attention
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.recipe.model import ModelSection

from .references import draw, randomize


def score(kind: str, head_dim: int, num_heads: int = 1, softcap: float | None = None) -> Score:
    section = ModelSection(
        d_model=num_heads * head_dim,
        num_heads=num_heads,
        positions="none",
        attention_score=kind,  # type: ignore[arg-type]
        attention_softcap=softcap,
    )
    module = Score(section)
    randomize(module)
    return module


QUERY = torch.tensor([1.0, 2.0, 0.0, 1.0]).view(1, 1, 1, 4)
KEYS = torch.tensor([[2.0, 1.0, 5.0, 0.0], [0.0, -1.0, 7.0, 4.0]]).view(1, 1, 2, 4)
"""Dot products: 2 + 2 = 4, and −2 + 4 = 2."""


@pytest.mark.parametrize(
    ("kind", "expected"), [("dot", [4.0, 2.0]), ("parameter_free", [4.0, 2.0]), ("scaled_dot", [2.0, 1.0])]
)
def test_dot_products_by_hand(kind: str, expected: list[float]):
    """Dh = 4: only the scaled ones are divided by √4."""
    module = score(kind, head_dim=4)
    assert module(QUERY, KEYS).flatten().tolist() == expected
    assert module.has_kernel
    assert not [*module.parameters()]


def test_additive_scores_by_hand():
    """v = (1, 2). q = (ln 2, 0). First key (0, 0): tanh(ln 2) = (4 − 1) / (4 + 1) = 0.6 and tanh 0 = 0, so 0.6. Second
    key (−ln 2, ln 3): tanh 0 = 0 and tanh(ln 3) = (9 − 1) / (9 + 1) = 0.8, so 2 · 0.8 = 1.6."""
    module = score("additive", head_dim=2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 2.0]]))
    query = torch.tensor([math.log(2), 0.0]).view(1, 1, 1, 2)
    keys = torch.tensor([[0.0, 0.0], [-math.log(2), math.log(3)]]).view(1, 1, 2, 2)
    torch.testing.assert_close(module(query, keys).flatten(), torch.tensor([0.6, 1.6]))
    assert not module.has_kernel, "no fused kernel adds queries and keys"


def test_every_head_has_its_own_additive_vector():
    """Heads that see the same, with v = 1 and v = 10, score ten times as much."""
    module = score("additive", head_dim=1, num_heads=2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0], [10.0]]))
    same = torch.full((1, 2, 3, 1), 0.4)
    first, second = module(same, same)[0]
    torch.testing.assert_close(second, 10 * first)
    torch.testing.assert_close(first, torch.full((3, 3), math.tanh(0.8)))


def test_additive_scores_are_bahdanaus_formula_cell_by_cell():
    module = score("additive", head_dim=3, num_heads=2).double()
    query, key = draw(2, 2, 4, 3), draw(2, 2, 5, 3, seed=1)
    scores = module(query, key)
    for head in range(2):
        for t in range(4):
            for s in range(5):
                expected = torch.tanh(query[1, head, t] + key[1, head, s]) @ module.weight[head]
                torch.testing.assert_close(scores[1, head, t, s], expected)


def test_a_cap_by_hand():
    """c = 5: a score of 5 artanh(0.6) = 5 · ln 2 becomes 5 · 0.6 = 3. Small scores stay nearly as they are."""
    module = score("dot", head_dim=1, softcap=5.0)
    ones = torch.ones(1, 1, 1, 1)
    assert module(ones * 5 * math.log(2), ones).item() == pytest.approx(3.0)
    assert module(ones * 0.01, ones).item() == pytest.approx(0.01, rel=1e-5)
    assert not module.has_kernel


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["dot", "scaled_dot", "additive"]),
    st.floats(0.1, 100),
    st.lists(st.floats(-300, 300), min_size=6, max_size=6).map(sorted),
)
def test_a_cap_bounds_and_keeps_the_order(kind: str, cap: float, numbers: list[float]):
    """However large the scores: within ± c, and a larger one stays no smaller."""
    capped, free = score(kind, head_dim=1, softcap=cap), score(kind, head_dim=1)
    with torch.no_grad():
        for module in (capped, free):
            if module.weight is not None:
                module.weight.fill_(30.0)
    query, keys = torch.ones(1, 1, 1, 1).double(), torch.tensor(numbers).double().view(1, 1, -1, 1)
    scores = capped.double()(query, keys).flatten()
    assert (scores.abs() <= cap).all()
    assert (scores.diff() >= -1e-12).all()
    assert (scores.abs() <= free.double()(query, keys).flatten().abs() + 1e-12).all()


@pytest.mark.parametrize("softcap", [None, 0.7], ids=["free", "capped"])
@pytest.mark.parametrize("kind", ["scaled_dot", "dot", "additive", "parameter_free"])
def test_the_gradient_through_every_score_and_the_softmax(kind: str, softcap: float | None):
    """Against finite differences, with a causal mask, by queries, keys, values and the learned vector."""
    module = score(kind, head_dim=2, num_heads=2, softcap=softcap).double()
    inputs = [draw(1, 2, 3, 2, seed=seed).requires_grad_() for seed in range(3)]

    def attend(query: Tensor, key: Tensor, value: Tensor, *_: Tensor) -> Tensor:
        return explicit_attention(module(query, key), value, causal_mask(3, 3))[0]

    assert torch.autograd.gradcheck(attend, [*inputs, *module.parameters()])


def test_scaling_keeps_the_variance_of_the_scores_at_one():
    """B3: products of D_k independent pairs of variance 1 sum to a variance of D_k; over √D_k it is 1."""
    for size in (4, 64, 256):
        query, key = torch.randn(2, 1, 1, 400, size, generator=torch.Generator().manual_seed(size))
        assert score("dot", size)(query, key).var().item() == pytest.approx(size, rel=0.1)
        assert score("scaled_dot", size)(query, key).var().item() == pytest.approx(1.0, rel=0.1)


def parameter_free(d_model: int, num_heads: int = 1, **settings: object) -> MultiHeadAttention:
    section = ModelSection(
        d_model=d_model,
        num_heads=num_heads,
        positions="none",
        attention_score="parameter_free",
        **settings,  # type: ignore[arg-type]
    )
    return MultiHeadAttention(section).double()


def test_attention_without_parameters_by_hand():
    """Y = softmax(X Xᵀ) X (Bishop and Bishop 2024, equation 12.5) for X = [[0, 0], [a, 0], [0, a]] with a² = ln 2.

    Row 0: scores 0, 0, 0, so the mean, (a/3, a/3). Row 1: scores 0, ln 2, 0, exponentials 1, 2, 1, weights 1/4, 1/2,
    1/4, so (a/2, a/4). Row 2: its mirror image.
    """
    a = math.log(2) ** 0.5
    module = parameter_free(2)
    x = torch.tensor([[[0.0, 0.0], [a, 0.0], [0.0, a]]], dtype=torch.float64)
    expected = torch.tensor([[[a / 3, a / 3], [a / 2, a / 4], [a / 4, a / 2]]], dtype=torch.float64)
    weights: list[Tensor] = []
    torch.testing.assert_close(module(x), expected)
    torch.testing.assert_close(module(x, weights=weights), expected)
    by_hand = torch.tensor([[1 / 3] * 3, [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(weights[0][0, 0], by_hand)
    assert not [*module.parameters()]


def test_attention_without_parameters_is_bishops_formula():
    x = draw(1, 6, 4)
    weights: list[Tensor] = []
    expected = torch.softmax(x[0] @ x[0].T, dim=-1) @ x[0]
    torch.testing.assert_close(parameter_free(4)(x, weights=weights)[0], expected)
    assert (weights[0] >= 0).all()
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(1, 1, 6).double())


def test_heads_without_parameters_each_take_their_part_of_the_vector():
    x = draw(1, 5, 6)
    halves = [torch.softmax(h @ h.T, dim=-1) @ h for h in (x[0, :, :3], x[0, :, 3:])]
    torch.testing.assert_close(parameter_free(6, num_heads=2)(x)[0], torch.cat(halves, dim=-1))
