"""Resamples and p-values: known distributions and hand-derived cases. What is made of them: test_intervals.py."""

import time

import numpy as np
import pytest

from tfcli.evaluation.bootstrap import MOST_UNITS, RESAMPLES, p_value, resampled
from tfcli.evaluation.intervals import percentile_interval


def test_a_resample_holds_as_many_units_as_there_are_with_repetition():
    """Unit n is 10ⁿ: the digits of a resample's sum say how often each was drawn."""
    sums = resampled(np.array([[1.0], [10.0], [100.0], [1000.0]]))[:, 0]
    digits = np.array([[int(total) // 10**n % 10 for n in range(4)] for total in sums])
    assert digits.shape == (RESAMPLES, 4)
    assert (digits.sum(axis=1) == 4).all()
    assert digits.min() == 0 and digits.max() > 1
    assert digits.mean(axis=0) == pytest.approx(np.ones(4), abs=0.1)


def test_resamples_are_the_same_every_time_and_for_every_column():
    """Two models' sums side by side are drawn together; alone they are drawn alike."""
    ours = np.random.default_rng(0).normal(size=(50, 2))
    assert np.array_equal(resampled(ours), resampled(ours))
    both = resampled(np.concatenate([ours, 2 * ours], axis=1))
    assert both[:, 2:] == pytest.approx(2 * both[:, :2])
    assert both[:, :2] == pytest.approx(resampled(ours))


@pytest.mark.parametrize("units", [200, 3 * MOST_UNITS + 7])
def test_the_interval_of_a_mean_is_that_of_the_normal_distribution(units: int):
    """mean ± 1.96 s/√n, by the central limit theorem; with and without units put together."""
    values = np.random.default_rng(1).exponential(size=units)
    draws = resampled(np.stack([values, np.ones(units)], axis=1))
    found = percentile_interval(draws[:, 0] / draws[:, 1])
    half = 1.96 * values.std() / np.sqrt(units)
    assert found is not None
    assert (found[0] + found[1]) / 2 == pytest.approx(values.mean(), abs=0.3 * half)
    assert (found[1] - found[0]) / 2 == pytest.approx(half, rel=0.15)


def test_the_interval_leaves_one_in_forty_on_each_side():
    """Of 1 to 1,000 the 25th and the 975th."""
    assert percentile_interval(np.random.default_rng(0).permutation(np.arange(1.0, 1001.0))) == (25.0, 975.0)


def test_a_score_that_some_resamples_do_not_have_has_no_interval():
    assert percentile_interval(np.array([1.0, np.nan, 2.0])) is None
    assert p_value(np.array([1.0, np.nan, 2.0]), 1.5) is None


def test_p_values_by_hand():
    """Resampled differences 1, 2, 3, 4 around a difference of 2.5 lie 1.5, 0.5, 0.5 and 1.5 from it: never 2.5, so
    that 1 of 5 is left of the added one. Around 1 with a difference of 1 they lie 0, 1, 2, 3: three of them as far."""
    draws = np.array([1.0, 2.0, 3.0, 4.0])
    assert p_value(draws, 2.5) == pytest.approx(1 / 5)
    assert p_value(draws, 1.0) == pytest.approx(4 / 5)
    assert p_value(-draws, -2.5) == pytest.approx(1 / 5), "whichever is better"


def test_models_that_are_equal_are_equal():
    assert p_value(np.zeros(1000), 0.0) == 1.0


def test_chance_alone_is_called_significant_one_time_in_twenty():
    """Pairs of equal models: the share of p-values below 0.05 is about that."""
    draw = np.random.default_rng(2)
    below = 0
    for _ in range(150):
        differences = draw.normal(size=(60, 1))
        below += p_value(resampled(differences)[:, 0] / 60, float(differences.mean())) < 0.05
    assert 0.01 <= below / 150 <= 0.12


def test_a_thousand_resamples_of_many_documents_take_less_than_a_second():
    sums = np.random.default_rng(3).normal(size=(200_000, 8))
    began = time.perf_counter()
    resampled(sums)
    assert time.perf_counter() - began < 1.0
