"""Matrices laid out for prediction: the same product, and one of rounded weights."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from tfcli.layers.kernels import Int8Linear, PrepackedLinear, has_bfloat16_products

needs_kernels = pytest.mark.skipif(not has_bfloat16_products(), reason="this processor has no kernels for it")
SIZES = st.integers(1, 70)


@needs_kernels
@settings(max_examples=40, deadline=None)
@given(out=SIZES, inner=SIZES, rows=st.lists(st.integers(1, 5), max_size=2), biased=st.booleans(), seed=SIZES)
def test_packing_changes_rounding_alone(out: int, inner: int, rows: list[int], biased: bool, seed: int):
    torch.manual_seed(seed)
    x, weight, bias = torch.randn(*rows, inner), torch.randn(out, inner), torch.randn(out) if biased else None
    torch.testing.assert_close(PrepackedLinear(weight, bias)(x), F.linear(x, weight, bias), atol=1e-4, rtol=1e-5)


@needs_kernels
@settings(max_examples=40, deadline=None)
@given(out=SIZES, inner=SIZES, rows=st.lists(st.integers(1, 5), max_size=2), biased=st.booleans(), seed=SIZES)
def test_eight_bits_are_off_by_their_step(out: int, inner: int, rows: list[int], biased: bool, seed: int):
    """A weight is off by half a step at most, which is max |row| / 254 and as much again for the scale in bfloat16; x
    and the product are read and written in bfloat16, 2^−8 apart."""
    torch.manual_seed(seed)
    x, weight, bias = torch.randn(*rows, inner), torch.randn(out, inner), torch.randn(out) if biased else None
    exact = F.linear(x, weight, bias)
    step = weight.abs().amax(1) / 254 * 1.01
    bound = x.abs().sum(-1, keepdim=True) * step * 2 + 2**-7 * (x.abs() @ weight.abs().T) + 1e-5
    assert (Int8Linear(weight, bias)(x) - exact).abs().le(bound).all()


@needs_kernels
def test_eight_bits_by_hand():
    """max |W| = 127 gives a step of 1: whole numbers stay, 0.4 goes to 0; a row of zeros stays zero."""
    weight = torch.tensor([[127.0, -3.0, 0.4], [0.0, 0.0, 0.0]])
    linear = Int8Linear(weight, None)
    assert linear.quantized[:, :3].tolist() == [[127, -3, 0], [0, 0, 0]]
    assert linear(torch.tensor([[0.0, 1.0, 1.0]])).tolist() == [[-3.0, 0.0]]
