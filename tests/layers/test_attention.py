"""Attention against PyTorch's kernel and against numbers worked out by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from tfcli.layers.attention import Score, causal_mask, explicit_attention, fused_attention
from tfcli.recipe.model import ModelSection

Tensor = torch.Tensor


def scaled(query: Tensor, key: Tensor) -> Tensor:
    """What the layer makes of queries and keys: Q Kᵀ / √Dh."""
    _, heads, _, size = query.shape
    scores: Tensor = Score(ModelSection(d_model=heads * size, num_heads=heads, positions="none"))(query, key)
    return scores


def explicit(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    scores = scaled(query, key)
    return explicit_attention(scores if bias is None else scores + bias, value, mask)[0]


def fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    return fused_attention(query, key, value, mask, scale=query.shape[-1] ** -0.5, bias=bias)


def random_heads(target: int, source: int, head_dim: int = 4, *, seed: int = 0, dtype: torch.dtype = torch.float64):
    """Query, key and value of two sequences with three heads."""
    generator = torch.Generator().manual_seed(seed)

    def draw(length: int) -> torch.Tensor:
        return torch.randn(2, 3, length, head_dim, generator=generator, dtype=dtype)

    return draw(target), draw(source), draw(source)


def masks(target: int, source: int) -> dict[str, torch.Tensor | None]:
    padding = torch.ones(2, 1, 1, source, dtype=torch.bool)
    padding[1, ..., -2:] = False
    nothing = torch.ones(2, 1, target, source, dtype=torch.bool)
    nothing[0, 0, 1] = False
    return {
        "none": None,
        "causal": causal_mask(target, source),
        "padding": padding,
        "causal and padding": causal_mask(target, source) & padding,
        "a row that sees nothing": nothing,
        "nothing is seen": torch.zeros(1, 1, target, source, dtype=torch.bool),
    }


@pytest.mark.parametrize("lengths", [(5, 5), (3, 6), (6, 3)], ids=str)
@pytest.mark.parametrize("name", ["none", "causal", "padding", "causal and padding", "a row that sees nothing"])
def test_both_paths_equal_pytorchs_kernel(lengths: tuple[int, int], name: str):
    query, key, value = random_heads(*lengths)
    mask = masks(*lengths)[name]
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(explicit(query, key, value, mask), expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(fused(query, key, value, mask), expected, atol=1e-12, rtol=0)


def test_the_causal_shortcut_of_the_fused_path_is_the_triangular_mask():
    query, key, value = random_heads(5, 5)
    expected = explicit(query, key, value, causal_mask(5, 5))
    shortcut = fused_attention(query, key, value, scale=0.5, causal=True)
    torch.testing.assert_close(shortcut, expected, atol=1e-12, rtol=0)


def test_two_tokens_by_hand():
    """With Dh = 1 nothing is scaled. q = (0, ln 3), k = (0, 1), v = (10, 20).

    Row 0: scores (0, 0), weights (1/2, 1/2), output 15. Row 1: scores (0, ln 3), exponentials (1, 3), weights
    (1/4, 3/4), output 2.5 + 15 = 17.5.
    """
    query = torch.tensor([0.0, math.log(3)]).view(1, 1, 2, 1)
    key = torch.tensor([0.0, 1.0]).view(1, 1, 2, 1)
    value = torch.tensor([10.0, 20.0]).view(1, 1, 2, 1)
    output, weights = explicit_attention(scaled(query, key), value)
    torch.testing.assert_close(weights[0, 0], torch.tensor([[0.5, 0.5], [0.25, 0.75]]))
    torch.testing.assert_close(output.flatten(), torch.tensor([15.0, 17.5]))
    torch.testing.assert_close(fused(query, key, value).flatten(), torch.tensor([15.0, 17.5]))


def test_the_scores_are_divided_by_the_root_of_the_head_size():
    """Dh = 4: q·k = 4 ln 3 for the first key and 0 for the second; over √4 = 2 that is 2 ln 3 = ln 9: weights
    9/10, 1/10."""
    query = torch.full((1, 1, 1, 4), math.log(3))
    key = torch.stack([torch.ones(4), torch.zeros(4)]).view(1, 1, 2, 4)
    _, weights = explicit_attention(scaled(query, key), key)
    torch.testing.assert_close(weights.flatten(), torch.tensor([0.9, 0.1]))


LECTURE_SCORES = torch.tensor([[31.0, 27.0, 22.0], [27.0, 42.0, 31.0], [22.0, 31.0, 37.0]])
"""The integer scores Q·Kᵀ that INF721 prints for "Lucas will travel"."""


def test_the_masked_scores_of_inf721():
    """The lecture's scores over √3, under the causal mask. Its own printed weights are not those of its
    scores.

    Row 0 sees itself alone: 1. Row 1: the difference 15/√3 = 8.66 leaves e^−8.66 = 1.73e−4 for the first. Row
    2: the differences to the largest are 15/√3 and 6/√3 = 3.4641; e^−3.4641 = 0.03130; the sum is 1.03147, so
    that the weights are 0.00017, 0.03035 and 0.96949.
    """
    query, key = (LECTURE_SCORES.view(1, 1, 3, 3), torch.eye(3).view(1, 1, 3, 3))  # Q·Iᵀ = the scores, and d_k = 3
    _, weights = explicit_attention(scaled(query, key), key, causal_mask(3, 3))
    expected = torch.tensor([[1, 0, 0], [0.00017, 0.99983, 0], [0.00017, 0.03035, 0.96949]])
    torch.testing.assert_close(weights[0, 0], expected, atol=1e-5, rtol=0)
    assert weights[0, 0].triu(1).count_nonzero() == 0, "the future weighs exactly nothing"


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10_000), st.floats(0.1, 100))
def test_every_row_of_weights_is_a_distribution_over_what_the_mask_allows(target, source, seed, size):
    """However large the scores: no weight below 0, rows that see something sum to 1, rows that see nothing to
    0."""
    query, key, value = random_heads(target, source, seed=seed)
    mask = torch.rand(2, 1, target, source, generator=torch.Generator().manual_seed(seed)) < 0.6
    output, weights = explicit_attention(scaled(query * size, key * size), value, mask)
    assert (weights >= 0).all()
    assert weights[~mask.expand_as(weights)].count_nonzero() == 0
    sees_something = mask.any(-1).expand(weights.shape[:-1]).double()
    torch.testing.assert_close(weights.sum(-1), sees_something, atol=1e-12, rtol=0)
    assert output[sees_something == 0].count_nonzero() == 0


NAMES = ["none", "causal", "padding", "causal and padding", "a row that sees nothing", "nothing is seen"]


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_the_explicit_path_is_its_own_derivative(name: str):
    """Against finite differences: the NaN of a row that sees nothing must not come back through the backward
    pass."""
    inputs = [tensor.requires_grad_() for tensor in random_heads(3, 4, 2)]
    mask = masks(3, 4)[name]
    assert torch.autograd.gradcheck(lambda q, k, v: explicit(q, k, v, mask), inputs)


@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lengths", [(4, 4), (3, 5), (5, 3)], ids=str)
def test_both_paths_have_the_same_outputs_and_gradients(lengths: tuple[int, int], name: str, biased: bool):
    """With a bias the fused path takes one mask of numbers instead of a boolean one. Rows that see nothing are zeros,
    and neither they nor their gradients are NaN; the bias has its gradient too."""
    mask = masks(*lengths)[name]
    bias = torch.randn(1, 3, *lengths, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    results = []
    for attend in (fused, explicit):
        inputs = [tensor.requires_grad_() for tensor in random_heads(*lengths)]
        added = bias.clone().requires_grad_()
        output = attend(*inputs, mask, added if biased else None)
        inputs += [added] if biased else []
        results.append([output, *torch.autograd.grad(output.pow(2).sum(), inputs)])
    for of_fused, of_explicit in zip(*results, strict=True):
        assert of_fused.isfinite().all()
        torch.testing.assert_close(of_fused, of_explicit, atol=1e-10, rtol=0)
    if mask is not None:
        blind = ~mask.any(-1).expand(results[0][0].shape[:-1])
        assert results[0][0][blind].count_nonzero() == 0


@pytest.mark.parametrize("attend", [fused, explicit])
def test_a_bias_is_added_to_the_scores(attend):
    """Scores (0, 0) and a bias of (ln 3, 0): weights 3/4 and 1/4, so that (8, 0) gives 6. Another query sees the second
    alone, and a third nothing."""
    query, value = torch.zeros(1, 1, 3, 1), torch.tensor([8.0, 0.0]).view(1, 1, 2, 1)
    bias = torch.tensor([math.log(3), 0.0]).expand(1, 1, 3, 2)
    mask = torch.tensor([[True, True], [False, True], [False, False]])
    output = attend(query, torch.zeros(1, 1, 2, 1), value, mask, bias)
    torch.testing.assert_close(output.flatten(), torch.tensor([6.0, 0.0, 0.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("attend", [fused, explicit])
def test_rows_that_see_nothing_are_defined_in_every_precision(attend, biased: bool, dtype: torch.dtype):
    inputs = [tensor.to(dtype).requires_grad_() for tensor in random_heads(4, 4)]
    bias = torch.full((1, 3, 4, 4), -5.0, dtype=dtype) if biased else None
    output = attend(*inputs, masks(4, 4)["a row that sees nothing"], bias)
    assert output.dtype == dtype
    assert output[0, :, 1].count_nonzero() == 0
    gradients = torch.autograd.grad(output.float().pow(2).sum(), inputs)
    assert output.isfinite().all() and all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("attend", [fused, explicit])
def test_the_output_is_linear_in_the_values(attend):
    """The weights do not depend on the values: twice some and thrice others give twice and thrice their outputs."""
    query, key, value = random_heads(3, 4)
    *_, other = random_heads(3, 4, seed=8)
    expected = 2 * attend(query, key, value) + 3 * attend(query, key, other)
    torch.testing.assert_close(attend(query, key, 2 * value + 3 * other), expected)


def test_dropout_drops_weights_and_keeps_their_mean():
    """With 10,000 equal weights over values of 1, half of them dropped and the rest doubled: the output stays
    near 1."""
    query, key = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 10_000, 1)
    torch.manual_seed(0)
    output, weights = explicit_attention(scaled(query, key), torch.ones_like(key), dropout=0.5)
    assert output.item() != 1.0
    assert output.item() == pytest.approx(1.0, abs=0.05)
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-4), "the weights that are shown are those before dropout"
