"""Scores of random queries and keys: what statistics says of them, and the softmax's own Jacobian."""

import math

import pytest
import torch

from tfcli.inspection.scaling import ScalingRecord
from tfcli.inspection.scaling.compute import measured_scaling, scores_of, softmax_state


@pytest.fixture(scope="module")
def record() -> ScalingRecord:
    return measured_scaling(400, 16, 0, sizes=(4, 64, 512))


def test_the_variance_is_d_k_and_over_the_root_of_d_k_it_is_1(record: ScalingRecord):
    """The mean of (qᵀk)² over m queries with n keys has the variance (2 D + (2 D² + 4 D) / n) / m: E (qᵀk)⁴ = 3 (D² +
    2 D), and two keys of one query have E = D² + 2 D together."""
    for row in record.rows:
        d = row.d_k
        error = math.sqrt((2 * d + (2 * d**2 + 4 * d) / 16) / 400)
        assert abs(row.variance - d) < 4 * error
        assert row.standard_error == pytest.approx(error, rel=0.3)
        assert abs(row.scaled_variance - 1) < 4 * error / d, "of the scores of a model's attention, over √D_k"


def test_unscaled_scores_saturate_and_scaled_ones_do_not(record: ScalingRecord):
    unscaled, scaled = [row.unscaled for row in record.rows], [row.scaled for row in record.rows]
    assert unscaled[0].largest_weight < unscaled[1].largest_weight < unscaled[2].largest_weight > 0.85
    assert unscaled[0].entropy > 2 * unscaled[1].entropy > 2 * unscaled[2].entropy
    assert unscaled[2].gradient_norm < 0.5 * scaled[2].gradient_norm
    assert scaled[0].gradient_norm == pytest.approx(scaled[2].gradient_norm, rel=0.1)
    assert scaled[0].largest_weight == pytest.approx(scaled[2].largest_weight, rel=0.1)
    assert scaled[0].largest_weight > 3 / 16, "not equal weights, as over D_k"


def test_the_gradient_norm_is_that_of_the_jacobian():
    scores = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    norms = [
        torch.autograd.functional.jacobian(lambda row: torch.softmax(row, -1), row).norm()  # type: ignore[no-untyped-call]
        for row in scores
    ]
    assert softmax_state(scores).gradient_norm == pytest.approx(float(sum(norms)) / 3)


def test_equal_and_certain_weights_by_hand():
    """Four equal weights: Σ w² = 1/4, Σ w³ = 1/16, so |J|² = 1/4 − 1/8 + 1/16 = 3/16. One weight alone: 0."""
    equal = softmax_state(torch.zeros(2, 4))
    assert (equal.largest_weight, equal.entropy) == (0.25, pytest.approx(math.log(4)))
    assert equal.gradient_norm == pytest.approx(math.sqrt(3) / 4)
    certain = softmax_state(torch.tensor([[1000.0, 0.0]]))
    assert (certain.largest_weight, certain.gradient_norm, certain.entropy) == (1.0, 0.0, 0.0)


def test_draws_in_pieces_are_all_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tfcli.inspection.scaling.compute._AT_ONCE", 3 * 4 * 8)
    assert scores_of(8, 10, 4, torch.Generator().manual_seed(0)).shape == (10, 4)


def test_the_gradient_of_a_saturated_row_is_small_and_not_nothing():
    """Weights 1 − ε and ε have the Jacobian ε (1 − ε) [[1, −1], [−1, 1]], whose norm is 2 ε (1 − ε)."""
    share = math.exp(-45.0)
    assert softmax_state(torch.tensor([[45.0, 0.0]])).gradient_norm == pytest.approx(2 * share, rel=1e-9)
