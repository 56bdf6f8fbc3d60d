"""Means and rollout, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionKind, AttentionRecord
from tfcli.inspection.attention.choice import averaged, rollout
from tfcli.records.arrays import frozen

# Layer 0: one head looks at itself, the other half and half; layer 1: both look at the first token alone.
WEIGHTS = [
    [[[1, 0], [0, 1]], [[1, 0], [0.5, 0.5]]],
    [[[1, 0], [1, 0]], [[1, 0], [1, 0]]],
]


def record(weights: object = WEIGHTS, kind: AttentionKind = "decoder_self") -> AttentionRecord:
    found = frozen(weights)
    return AttentionRecord(kind, ("a", "b")[: found.shape[2]], ("a", "b")[: found.shape[3]], found, scores=found)


def test_a_layer_s_mean():
    """(0, 1) and (½, ½) are (¼, ¾) together."""
    mean = averaged(record(), "layer")
    assert mean.weights.tolist() == [[[[1, 0], [0.25, 0.75]]], [[[1, 0], [1, 0]]]]
    assert mean.names == ("layer 0, mean of 2 heads", "layer 1, mean of 2 heads")
    assert mean.scores is None, "a mean of scores is not what the softmax was taken of"


def test_the_mean_of_all():
    """(0, 1), (½, ½), (1, 0), (1, 0) are (⅝, ⅜) together."""
    mean = averaged(record(), "all")
    assert mean.weights.tolist() == [[[[1, 0], [0.625, 0.375]]]]
    assert mean.names == ("mean of 2 layers × 2 heads",)


def test_rollout_of_two_layers():
    """Layer 0: Ã = ½ (¼, ¾) + ½ (0, 1) = (⅛, ⅞). Layer 1: Ã = ½ (1, 0) + ½ (0, 1) = (½, ½), so that b is
    ½ (1, 0) + ½ (⅛, ⅞) = (9/16, 7/16)."""
    found = rollout(record())
    assert found.weights.tolist() == [[[[1, 0], [0.125, 0.875]]], [[[1, 0], [0.5625, 0.4375]]]]
    assert found.names == ("rollout of layer 0", "rollout through layers 0 to 1")
    assert found.focus == (1, 0)
    assert found.place(1, 0) == "rollout through layers 0 to 1"


def test_without_residuals_the_weights_alone_pass_shares_on():
    """Layer 1 lets b look at a alone, of which everything comes from a."""
    found = rollout(replace(record(), residuals=False))
    assert found.weights.tolist() == [[[[1, 0], [0.25, 0.75]]], [[[1, 0], [1, 0]]]]
    assert found.formula.endswith("Ã = A, A the mean of a layer's heads")


def test_rows_that_see_nothing_stay_themselves():
    """A row of zeros leaves ½ (0, 1), which is renormalised."""
    assert rollout(record([[[[1, 0], [0, 0]]]])).weights.tolist() == [[[[1, 0], [0, 1]]]]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 7), st.integers(0, 99))
def test_rows_sum_to_one_and_the_future_stays_hidden(layers: int, heads: int, count: int, seed: int):
    powers = np.exp(np.random.default_rng(seed).normal(size=(layers, heads, count, count)) * 4)
    powers *= np.tril(np.ones((count, count)))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    one = AttentionRecord("decoder_self", ("x",) * count, ("x",) * count, frozen(weights))
    for found in (rollout(one), averaged(one, "layer"), averaged(one, "all")):
        np.testing.assert_allclose(found.weights.sum(axis=-1), 1, atol=1e-6)
        assert (found.weights[..., np.triu(np.ones((count, count), dtype=bool), 1)] == 0).all()
        assert not found.weights.flags.writeable


def test_cross_attention_is_no_stack():
    with pytest.raises(UsageError, match=r"Rollout multiplies the layers of one stack.*choose --kind encoder_self"):
        rollout(record(kind="cross"))


def test_later_layers_stand_to_the_left():
    """Layer 0: both look at b, so that a is (½, ½) and b (0, 1). Layer 1: both look at a, so that b takes half of each:
    ½ (½, ½) + ½ (0, 1) = (¼, ¾). The other way round it would be (½, ½)."""
    found = rollout(record([[[[0, 1], [0, 1]]], [[[1, 0], [1, 0]]]], "encoder_self"))
    assert found.weights[1, 0].tolist() == [[0.5, 0.5], [0.25, 0.75]]
