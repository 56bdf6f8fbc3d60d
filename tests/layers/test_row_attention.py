"""Attention a sequence at a time is the explicit formula: values, gradients, masks, dropout."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.models.small import model
from tfcli.layers import attention as module
from tfcli.layers.attention import dot_scores, explicit_attention, masked, row_attention, without_blind_rows
from tfcli.layers.multi_head import MultiHeadAttention


def drawn(batch: int, heads: int, target: int, source: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, heads, length, 4) for length in (target, source, source)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 5),
    lengths=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    of_batch=st.booleans(),
    of_heads=st.booleans(),
    cached=st.integers(1, 80),
    seed=st.integers(0, 99),
)
def test_any_portions_give_the_values_and_gradients_of_the_formula(
    batch: int, heads: int, lengths: tuple[int, int], of_batch: bool, of_heads: bool, cached: int, seed: int
):
    """With a bias and a mask a sequence, a head, or for all; some queries see nothing."""
    inputs = drawn(batch, heads, *lengths, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    shape = (batch if of_batch else 1, heads if of_heads else 1, *lengths)
    mask = torch.rand(shape, generator=generator) < 0.7
    bias = torch.randn(shape, generator=generator, dtype=torch.float64)
    before, module.CACHED_SCORES = module.CACHED_SCORES, cached
    try:
        ours = row_attention(*inputs, masked(bias, mask), scale=0.5, dropout=0.0)
        ours = without_blind_rows(ours, mask)
        gradients = torch.autograd.grad(ours.sin().sum(), inputs)
    finally:
        module.CACHED_SCORES = before
    query, key, value = inputs
    expected, _ = explicit_attention(dot_scores(query, key, 0.5) + bias, value, mask)
    torch.testing.assert_close(ours, expected, atol=1e-12, rtol=0)
    for found, right in zip(gradients, torch.autograd.grad(expected.sin().sum(), inputs), strict=True):
        assert found.isfinite().all()
        torch.testing.assert_close(found, right, atol=1e-12, rtol=0)


def test_its_gradient_with_dropout_is_that_of_finite_differences():
    """The same random numbers every time: attention is then a smooth function of its inputs."""
    inputs = drawn(2, 2, 3, 3)
    no_bias = torch.zeros(1, 1, 3, 3, dtype=torch.float64)

    def attend(*given: Tensor) -> Tensor:
        torch.manual_seed(5)
        return row_attention(*given, no_bias, scale=0.5, dropout=0.4)

    dropped = attend(*inputs)
    assert not torch.allclose(dropped, row_attention(*inputs, no_bias, scale=0.5, dropout=0.0))
    assert torch.autograd.gradcheck(attend, inputs)


def test_dropout_leaves_out_its_share_and_keeps_the_mean():
    """With equal weights 1/S and values of 1, an output is the share that is kept over (1 − p), 1 on average."""
    query, key, value = torch.zeros(1, 1, 400, 4), torch.zeros(1, 1, 50, 4), torch.ones(1, 1, 50, 4)
    torch.manual_seed(0)
    output = row_attention(query, key, value, torch.zeros(1, 1, 400, 50), scale=1.0, dropout=0.25)
    assert output.mean().item() == pytest.approx(1.0, abs=0.01)
    kept = output * 0.75 * 50
    torch.testing.assert_close(kept, kept.round(), atol=1e-4, rtol=0)


def test_bfloat16_stays_bfloat16_with_dropout():
    query, key, value = (x.detach().bfloat16().requires_grad_() for x in drawn(2, 2, 3, 5))
    output = row_attention(query, key, value, query.new_zeros(1, 1, 3, 5), scale=0.5, dropout=0.5)
    output.sum().backward()
    assert {x.dtype for x in (output, query.grad, key.grad, value.grad)} == {torch.bfloat16}


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("settings", [{}, {"num_kv_heads": 1}, {"positions": "alibi"}, {"positions": "t5"}], ids=str)
def test_a_model_by_rows_is_the_same_model(architecture: str, settings: dict[str, object]):
    """In training, on a padded batch; a learned bias takes the fused path, for it needs a gradient."""
    network = model(architecture, **settings).train()
    ids = torch.arange(12).view(2, 6) % 11
    inputs = [ids, ids.flip(1)] if architecture == "encoder-decoder" else [ids]
    padding = torch.ones(2, 6, dtype=torch.bool)
    padding[1, 4:] = False
    found = []
    for by_rows in (False, True):
        for attention in network.modules():
            if isinstance(attention, MultiHeadAttention):
                attention.use_in_training("rows" if by_rows else "fused")
        output = network.hidden(*inputs, padding)
        found.append([output, *torch.autograd.grad(output.sin().sum(), list(network.parameters()), allow_unused=True)])
    for fused, rows in zip(*found, strict=True):
        assert (fused is None) == (rows is None)
        if fused is not None:
            torch.testing.assert_close(rows, fused, atol=1e-9, rtol=1e-9)
