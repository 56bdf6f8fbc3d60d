"""Statistics of heads on weights whose statistics are known by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tfcli.inspection.heads import statistics as measure

Weights = NDArray[np.float64]
LENGTH = 6
CAUSAL = np.tri(LENGTH, dtype=bool)


def looking(*keys: int, length: int | None = None) -> Weights:
    """One head whose query t looks at keys[t] alone. Shape: (1, T, S)."""
    weights = np.zeros((1, len(keys), length or len(keys)))
    weights[0, range(len(keys)), keys] = 1
    return weights


def uniform(mask: NDArray[np.bool_]) -> Weights:
    return (mask / mask.sum(axis=1, keepdims=True))[None]


def test_equal_weights_have_the_largest_entropy():
    """Query t sees t + 1 keys, so that its entropy is ln(t + 1): ln 6! / 6 in the mean."""
    expected = math.log(math.factorial(LENGTH)) / LENGTH
    assert measure.entropy(uniform(CAUSAL)) == pytest.approx([expected])
    assert measure.largest_entropy(CAUSAL) == pytest.approx(expected)
    assert measure.entropy(looking(0, 0, 1, 2)) == pytest.approx([0])


def test_equal_weights_look_half_way_back():
    """The mean of 0 … t is t/2, and the mean of those for t = 0 … 5 is 1.25."""
    assert measure.distance(uniform(CAUSAL)) == pytest.approx([1.25])
    assert measure.distance(looking(2, 1, 0)) == pytest.approx([4 / 3])


def test_induction_looks_behind_the_earlier_copy():
    """<s> A B C A B C: the second A (4) looks at the first B (2), B (5) at C (3), C (6) at the second A (4)."""
    induction, duplicate = looking(0, 0, 0, 0, 2, 3, 4), looking(0, 0, 0, 0, 1, 2, 3)
    assert float(measure.induction(induction, 1, 3)[0]) == 1
    assert float(measure.duplicate(duplicate, 1, 3)[0]) == 1
    assert float(measure.induction(duplicate, 1, 3)[0]) == 0
    assert float(measure.duplicate(induction, 1, 3)[0]) == 0


def test_what_stands_behind_the_copies_does_not_count():
    """An encoder's </s> behind A B A B would look at an index that is no copy."""
    weights = looking(0, 0, 0, 1, 2, 0)
    assert float(measure.duplicate(weights, 1, 2)[0]) == 1


def test_in_order_counts_steps_back():
    assert float(measure.in_order(looking(0, 1, 1, 0, 2))[0]) == 3 / 4


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), length=st.integers(2, 9))
def test_entropy_agrees_with_torch(seed: int, length: int):
    mask = np.tri(length, dtype=bool)
    scores = torch.tensor(np.where(mask, np.random.default_rng(seed).normal(size=(3, length, length)), -np.inf))
    weights = torch.softmax(scores, dim=-1)
    expected = torch.distributions.Categorical(probs=weights).entropy().mean(-1)
    found = measure.entropy(weights.numpy())
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
    assert (found <= measure.largest_entropy(mask) + 1e-9).all()
