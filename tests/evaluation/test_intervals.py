"""Intervals: published values, values by hand, and how often they contain the truth."""

import math
import time
from collections.abc import Callable

import numpy as np
import pytest

from tfcli.evaluation import intervals
from tfcli.evaluation.bootstrap import resampled
from tfcli.evaluation.intervals import (
    bounded_interval,
    difference_interval,
    mean_interval,
    mean_intervals,
    percentile_interval,
    share_interval,
    t_quantile,
    unseen_error,
    unseen_error_of_labels,
    wilson,
)
from tfcli.records.evaluation import Interval

ONE_TO_A_THOUSAND = np.random.default_rng(0).permutation(np.arange(1.0, 1001.0))


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_limits(right: int, count: int, low: float, high: float):
    """Newcombe 1998 (Statistics in Medicine 17, 857–872), table I, method 3."""
    assert wilson(right / count, count) == pytest.approx((low, high), abs=5e-5)


def test_all_of_41_texts_right_leaves_room_for_mistakes():
    """n / (n + z²) = 41 / 44.84."""
    assert share_interval(np.ones(41), np.ones(41)) == (pytest.approx(0.91433, abs=1e-5), 1.0)
    assert share_interval(np.zeros(41), np.ones(41)) == (0.0, pytest.approx(0.08567, abs=1e-5))


def test_one_answer_in_each_text_is_wilson_s_interval():
    right = np.arange(40.0) < 30
    assert share_interval(right.astype(float), np.ones(40)) == pytest.approx(wilson(0.75, 40))


def test_answers_of_one_text_that_are_all_alike_count_about_once():
    """10 texts with 2 right answers and 10 with none: the variance over texts is 20/19 · 20/40²,
    that of independent answers 1/4/40, a design effect of 40/19. So the 40 answers count as 19,
    times (1.95996/2.09302)² for t."""
    right, count = np.repeat([2.0, 0.0], 10), np.full(20, 2.0)
    assert share_interval(right, count) == pytest.approx(wilson(0.5, 19 * (1.95996 / 2.09302) ** 2), abs=1e-5)


def test_independent_answers_in_texts_are_as_sure_as_their_number():
    """5,000 answers in 500 texts: the design effect is about 1."""
    count = np.full(500, 10.0)
    right = np.random.default_rng(0).binomial(10, 0.7, 500).astype(float)
    low, high = share_interval(right, count) or (0, 0)
    expected_low, expected_high = wilson(right.sum() / 5000, 5000)
    assert high - low == pytest.approx(expected_high - expected_low, rel=0.1)


def test_perfect_texts_of_many_answers_count_once_each():
    """12 texts of 100 right answers: 1,200 answers that may all be right for the same reason. The
    t quantile is 2.201, and n = 12 · (1.96/2.201)² = 9.5."""
    low, high = share_interval(np.full(12, 100.0), np.full(12, 100.0)) or (0, 0)
    effective = 12 * (1.95996 / 2.20099) ** 2
    assert (low, high) == (pytest.approx(effective / (effective + 1.95996**2), abs=1e-5), 1.0)


def test_one_mistake_does_not_make_an_interval_narrower():
    """With none, one, … ten of 41 texts of 7 answers with a mistake, the lower end falls or stays."""
    lows = []
    for mistaken in range(11):
        right = np.full(41, 7.0)
        right[:mistaken] -= 1
        low, high = share_interval(right, np.full(41, 7.0)) or (0, 0)
        assert low < right.sum() / 287 <= high
        lows.append(low)
    assert lows[0] == pytest.approx(0.913, abs=0.005)
    assert max(lows[:6]) < 0.95, "few mistakes say little about how they cluster"


def test_texts_without_an_answer_say_nothing():
    right, count = np.arange(20.0) % 2, np.ones(20)
    with_empty = share_interval(np.append(right, np.zeros(30)), np.append(count, np.zeros(30)))
    assert with_empty == share_interval(right, count)
    assert share_interval(right[:9], count[:9]) is None
    assert share_interval(np.append(right[:9], np.zeros(30)), np.append(count[:9], np.zeros(30))) is None


@pytest.mark.parametrize(("freedom", "quantile"), [(9, 2.262), (11, 2.201), (19, 2.093), (28, 2.048), (60, 2.000)])
def test_quantiles_of_t_are_those_of_the_tables(freedom: int, quantile: float):
    assert t_quantile(freedom) == pytest.approx(quantile, abs=6e-4)


def test_a_mean_of_few_texts_is_mean_plus_minus_t_standard_errors():
    """1 to 12: mean 6.5, variance 13, standard error √(13/12) = 1.0408, t = 2.20099."""
    found = mean_interval(np.arange(1.0, 13.0), np.ones(12))
    assert found == pytest.approx((6.5 - 2.20099 * math.sqrt(13 / 12), 6.5 + 2.20099 * math.sqrt(13 / 12)), abs=1e-4)


def test_bca_by_hand_with_a_bias():
    """600 of the draws 1 … 1,000 are below the estimate: z₀ = Φ⁻¹(0.6) = 0.25335. Without
    acceleration the ends are at Φ(2 z₀ ∓ 1.95996): Φ(−1.45327) = 0.07308 and Φ(2.46666) = 0.99318."""
    assert intervals._bca_interval(600.5, np.array([-1.0, 1.0]), ONE_TO_A_THOUSAND) == (74.0, 994.0)


def test_bca_by_hand_with_an_acceleration():
    """Deviations 2, −1, −1: a = 6 / (6 · 6^1.5) = 0.068041. Without a bias the ends are at
    Φ(−1.95996 / (1 + 0.13336)) = Φ(−1.72934) = 0.04187 and
    Φ(1.95996 / (1 − 0.13336)) = Φ(2.26156) = 0.98814."""
    assert intervals._bca_interval(500.5, np.array([-2.0, 1.0, 1.0]), ONE_TO_A_THOUSAND) == (42.0, 989.0)


def test_bca_without_bias_and_acceleration_is_the_percentiles():
    assert intervals._bca_interval(500.5, np.array([-1.0, 1.0]), ONE_TO_A_THOUSAND) == (25.0, 975.0)
    assert percentile_interval(ONE_TO_A_THOUSAND) == (25.0, 975.0)


def test_the_interval_of_a_skewed_mean_reaches_further_up_than_down():
    """An exponential mean is gamma-distributed: of 200 units the exact ends are 2n / χ²(0.975, 2n)
    and 2n / χ²(0.025, 2n) times the mean, the quantiles by Wilson and Hilferty's cube."""
    values = np.random.default_rng(4).exponential(size=200)
    low, high = mean_interval(values, np.ones(200)) or (0, 0)

    def exact(z: float) -> float:
        return 1 / (1 - 2 / (9 * 400) + z * math.sqrt(2 / (9 * 400))) ** 3

    assert low / values.mean() == pytest.approx(exact(1.96), abs=0.03)
    assert high / values.mean() == pytest.approx(exact(-1.96), abs=0.03)
    assert high - values.mean() > values.mean() - low


def test_several_means_are_computed_as_each_alone():
    draw = np.random.default_rng(5)
    for units in (15, 60):
        values, weights = draw.normal(size=(units, 3)), draw.uniform(1, 5, size=units)
        together = mean_intervals(np.column_stack([values, weights]))
        alone = [mean_interval(column, weights) for column in values.T]
        for one, other in zip(together, alone, strict=True):
            assert one == pytest.approx(other)


def test_too_little_text_has_no_interval():
    assert mean_interval(np.arange(9.0), np.ones(9)) is None
    lone = np.zeros(12)
    lone[0] = 1.0
    assert mean_interval(lone, lone) is None, "without that text there is no mean"
    lone = np.resize(lone, 40) * (np.arange(40) == 0)
    assert mean_interval(lone, lone) is None


@pytest.mark.parametrize("units", [12, 40])
def test_texts_without_anything_to_score_do_not_count(units: int):
    draw = np.random.default_rng(6)
    values, weights = draw.normal(size=units), np.ones(units)
    empty = np.zeros(30)
    with_empty = mean_interval(np.append(values, empty), np.append(weights, empty))
    assert with_empty == mean_interval(values, weights)
    assert mean_interval(np.append(values[:9], empty), np.append(weights[:9], empty)) is None


@pytest.mark.parametrize("factor", [1e-150, 1e120, 1e300])
def test_the_size_of_the_values_does_not_change_the_interval(factor: float):
    """Cubes of 1e120 overflow, and cubes of 1e-150 are 0."""
    values = np.random.default_rng(4).exponential(size=40)
    low, high = mean_interval(values, np.ones(40)) or (0, 0)
    scaled = mean_interval(values * factor, np.ones(40))
    assert scaled == pytest.approx((low * factor, high * factor))


def test_the_share_of_very_many_texts_is_computed_at_once():
    """Student's t of a million degrees of freedom took seven seconds."""
    count = np.full(1_000_000, 2.0)
    right = np.resize([2.0, 1.0, 1.0, 0.0], 1_000_000)
    began = time.perf_counter()
    interval = share_interval(right, count)
    assert time.perf_counter() - began < 3
    assert interval == pytest.approx(wilson(0.5, 2_000_000), abs=1e-6)


def test_what_is_the_same_in_every_text_has_no_width():
    assert mean_interval(np.full(40, 3.0), np.full(40, 4.0)) == pytest.approx((0.75, 0.75))
    assert mean_interval(np.full(12, 3.0), np.full(12, 4.0)) == pytest.approx((0.75, 0.75))


def test_a_perfect_score_has_a_width():
    """What Wilson's interval leaves of 41 right texts: z² / (41 + z²)."""
    loss = unseen_error(41)
    assert loss == pytest.approx(3.8415 / 44.8415, abs=1e-5)
    assert bounded_interval(np.ones(1000), 0, loss) == (pytest.approx(1 - loss), 1.0)
    assert bounded_interval(np.full(1000, 100.0), 0, loss, 100.0) == (pytest.approx(100 - 100 * loss), 100.0)
    assert bounded_interval(np.zeros(1000), 41, loss) == (0.0, pytest.approx(loss))


def test_the_allowance_ends_with_ten_mistaken_texts():
    draws = np.linspace(0.96, 1.0, 1000)
    low, high = percentile_interval(draws) or (0, 0)
    assert bounded_interval(draws, 10, 0.2) == (low, high)
    assert bounded_interval(draws, 5, 0.2) == (pytest.approx(0.9), high)
    assert bounded_interval(draws, 5, 0.01) == (low, high)
    assert bounded_interval(np.array([0.5, np.nan]), 0, 0.1) is None


def test_a_mean_over_labels_is_as_unsure_as_its_labels_together():
    """20 and 21 texts: allowances 3.8415/23.8415 = 0.16113 and 3.8415/24.8415 = 0.15464, together
    √(0.16113² + 0.15464²) / 2. Two texts of a label say little, whatever the other label has."""
    assert unseen_error_of_labels([20, 21]) == pytest.approx(0.11167, abs=1e-5)
    assert unseen_error_of_labels([41]) == unseen_error(41)
    assert unseen_error_of_labels([2, 1000]) == pytest.approx(3.8415 / 5.8415 / 2, abs=1e-3)


def test_a_difference_without_any_is_not_sure_to_be_none():
    assert difference_interval(np.zeros(1000), 0.09) == (-0.09, 0.09)
    assert difference_interval(ONE_TO_A_THOUSAND, 0.09) == (25.0, 975.0)


def coverage(interval: Callable[[], Interval | None], truth: float, times: int) -> float:
    """How often an interval contains the truth."""
    contained = 0
    for _ in range(times):
        low, high = interval() or (math.nan, math.nan)
        contained += low <= truth <= high
    return contained / times


@pytest.mark.slow
@pytest.mark.parametrize(("units", "least"), [(12, 0.93), (20, 0.93), (41, 0.92), (100, 0.93)])
def test_intervals_of_means_contain_the_mean(units: int, least: float):
    """Percentiles of 12 units contain it 9 times in 10 at most."""
    draw = np.random.default_rng(units)

    def of_mean() -> Interval | None:
        return mean_interval(draw.normal(size=units), np.ones(units))

    assert least <= coverage(of_mean, 0.0, 1500) <= 0.97
    if units == 12:

        def by_percentiles() -> Interval | None:
            return percentile_interval(resampled(draw.normal(size=(units, 1)))[:, 0] / units)

        assert coverage(by_percentiles, 0.0, 1500) < 0.92


@pytest.mark.slow
@pytest.mark.parametrize("alike", [0.0, 0.1, 0.3, 0.5])
@pytest.mark.parametrize(("texts", "most"), [(41, 14), (100, 100)])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.97, 0.995, 0.999])
def test_intervals_of_shares_contain_the_share(texts: int, most: int, share: float, alike: float):
    """Texts of 1 to `most` answers, whose chances vary from text to text: a beta distribution with
    the intraclass correlation `alike`."""
    draw = np.random.default_rng(7)

    def of_share() -> Interval | None:
        count = draw.integers(1, most, size=texts)
        chances = np.full(texts, share)
        if alike:
            spread = 1 / alike - 1
            chances = draw.beta(share * spread, (1 - share) * spread, size=texts)
        return share_interval(draw.binomial(count, chances).astype(float), count.astype(float))

    assert coverage(of_share, share, 500) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [0.8, 0.95, 0.99])
def test_intervals_of_macro_f1_contain_it(accuracy: float):
    """41 texts of two labels that are as frequent, and as often taken for each other, so macro-F1 is
    the accuracy."""
    from tfcli.evaluation.classification import macro_f1

    draw = np.random.default_rng(8)

    def of_texts(*, with_allowance: bool) -> Interval | None:
        true = draw.integers(2, size=41)
        predicted = np.where(draw.random(41) < accuracy, true, 1 - true)
        sides = [np.eye(2)[side] for side in (predicted, true)]
        sums = np.concatenate([sides[0] * sides[1], *sides], axis=1)
        draws = macro_f1(resampled(sums))
        if not with_allowance:
            return percentile_interval(draws)
        texts_of_labels = sides[1].sum(0)
        allowance = unseen_error_of_labels(texts_of_labels[texts_of_labels > 0].astype(int).tolist())
        return bounded_interval(draws, int((true != predicted).sum()), allowance)

    assert coverage(lambda: of_texts(with_allowance=True), accuracy, 400) >= 0.9
    if accuracy == 0.99:
        assert coverage(lambda: of_texts(with_allowance=False), accuracy, 400) < 0.5, "where all 41 texts are right"
