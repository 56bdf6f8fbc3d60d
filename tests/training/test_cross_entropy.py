"""The loss in blocks against numbers worked out by hand and against PyTorch's own cross-entropy."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tfcli.data.batch import IGNORED
from tfcli.training import objective
from tfcli.training.objective import linear_cross_entropy


def plain(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    """Logits, and PyTorch's loss of the rows that have a label against the spread-out target."""
    kept = labels != IGNORED
    logits = F.linear(hidden[kept], weight, bias)
    spread = F.one_hot(labels[kept], len(weight)) * (1 - smoothing) + smoothing / len(weight)
    return F.cross_entropy(logits, spread.to(logits.dtype), reduction="sum")


def drawn(tokens: int, size: int, words: int, with_bias: bool, seed: int = 0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    hidden, weight = (3 * torch.randn(n, size, generator=generator) for n in (tokens, words))
    bias = torch.randn(words, generator=generator) if with_bias else None
    labels = torch.randint(0, words, (tokens,), generator=generator)
    labels[torch.rand(tokens, generator=generator) < 0.3] = IGNORED
    return hidden, weight, bias, labels  # type: ignore[return-value]


def results(loss_of, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float):
    inputs = [x.clone().requires_grad_() for x in (hidden, weight, bias) if x is not None]
    loss = loss_of(*inputs, *([None] if bias is None else []), labels, smoothing)
    loss = loss[0] if isinstance(loss, tuple) else loss
    return [loss, *torch.autograd.grad(0.25 * loss, inputs)]


def test_label_smoothing_by_hand():
    """p = (½, ¼, ¼), the first is right, ε = 0.3: q = (0.8, 0.1, 0.1).
    −Σ q ln p = 0.8 ln 2 + 0.1 · 2 ln 2 + 0.1 · 2 ln 2 = 1.2 ln 2. The gradient by the logits is p − q."""
    bias = torch.tensor([0.5, 0.25, 0.25]).log() + 7.0  # a shift of all logits changes nothing
    bias.requires_grad_()
    hidden, weight, label = torch.zeros(1, 2), torch.ones(3, 2), torch.tensor([0])
    assert linear_cross_entropy(hidden, weight, bias, label)[0].item() == pytest.approx(math.log(2))
    loss, without = linear_cross_entropy(hidden, weight, bias, label, 0.3)
    assert loss.item() == pytest.approx(1.2 * math.log(2))
    assert without.item() == pytest.approx(math.log(2))
    assert not without.requires_grad
    loss.backward()
    torch.testing.assert_close(bias.grad, torch.tensor([-0.3, 0.15, 0.15]))


@settings(max_examples=40, deadline=None)
@given(
    tokens=st.integers(0, 40),
    words=st.integers(2, 200),
    with_bias=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1]),
    at_a_time=st.integers(1, 50),
    multiple=st.sampled_from([1, 64]),
    compiled=st.booleans(),
    seed=st.integers(0, 99),
)
def test_blocks_and_portions_of_any_size_give_pytorch_s_loss_and_gradients(
    tokens: int,
    words: int,
    with_bias: bool,
    smoothing: float,
    at_a_time: int,
    multiple: int,
    compiled: bool,
    seed: int,
):
    """Also with columns behind the vocabulary, and with all of it in one block as torch.compile gets it."""
    inputs = drawn(tokens, 5, words, with_bias, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objective, "BLOCK", {"cpu": 64 * at_a_time})
        patch.setattr(objective, "MOST_TOKENS", at_a_time)
        patch.setattr(objective, "MULTIPLE", {"cpu": multiple})
        patch.setattr(objective, "_compiled", lambda function: function)
        ours = results(partial(linear_cross_entropy, compiled=compiled), *inputs, smoothing)
    for found, expected in zip(ours, results(plain, *inputs, smoothing), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_logits_that_would_overflow_an_exponential():
    """exp(1000) is infinite in float32. The losses are ln(1 + e^−1000) = 0 and 1000 + ln(1 + e^−1000) = 1000."""
    hidden, weight = torch.ones(2, 1, requires_grad=True), torch.tensor([[1000.0], [0.0]])
    loss, _ = linear_cross_entropy(hidden, weight, None, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx(1000.0)
    loss.backward()
    assert hidden.grad.tolist() == [[0.0], [1000.0]]


def test_without_a_label_there_is_no_loss_and_no_gradient():
    inputs = drawn(3, 4, 9, with_bias=True)[:3]
    loss, *gradients = results(linear_cross_entropy, *inputs, torch.full((3,), IGNORED), 0.1)
    assert loss.item() == 0.0
    assert all(not gradient.any() for gradient in gradients)


def test_bfloat16_vectors_give_float32_sums():
    hidden, weight, bias, labels = drawn(64, 16, 300, with_bias=True)
    halved = hidden.bfloat16() / 3
    loss, _, d_weight, _ = results(linear_cross_entropy, halved, weight / 3, bias, labels, 0.0)
    expected, _, by_weight, _ = results(plain, halved.float(), (weight / 3).bfloat16().float(), bias, labels, 0.0)
    assert (loss.dtype, d_weight.dtype) == (torch.float32, torch.float32)
    assert loss.item() == pytest.approx(expected.item(), rel=2e-3)
    assert (d_weight - by_weight).norm() < 0.01 * by_weight.norm()
