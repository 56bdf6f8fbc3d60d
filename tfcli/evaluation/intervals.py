"""95 % confidence intervals: every interval that tfcli shows is computed here.

What varies is the text: a unit is a document, a pair, a stretch of text, or a labelled text.

| quantity | method | function |
|---|---|---|
| mean: loss, bits per byte, change of a loss | BCa bootstrap; t below 30 units | `mean_intervals` |
| share: accuracy, exact match | Wilson | `share_interval` |
| F1, BLEU, chrF | percentiles of the bootstrap, never of zero width | `bounded_interval` |
| difference of two runs | percentiles of the paired bootstrap | `difference_interval` |

The reasons are in docs/evaluation.md.
Shape legend: U units, R resamples, K sums of a unit, S scores.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from tfcli.evaluation.bootstrap import FEWEST_UNITS, Array, resampled
from tfcli.records.evaluation import FEWEST_FOR_BOOTSTRAP, Interval
from tfcli.runs.seeds import t_quantile

_NORMAL = NormalDist()
_TAILS = (0.025, 0.975)
_Z = _NORMAL.inv_cdf(_TAILS[1])  # 1.96
# With more degrees of freedom, t is the normal quantile to 1 part in 8,000, and takes seconds to compute.
MOST_FREEDOM = 10_000

Scores = Callable[[Array], Array]  # from sums, (…, K), to several scores, (…, S)


def ratios(sums: Array) -> Array:
    """Every column divided by the last one. Shape: (…, K) → (…, K − 1)."""
    return sums[..., :-1] / sums[..., -1:]


def mean_intervals(sums: Array, scores: Scores = ratios) -> list[Interval | None]:
    """Intervals of means over units, or of any smooth function of the units' sums.

    From 30 units on, the bias-corrected and accelerated bootstrap (BCa; Efron 1987, section 3).
    Resamples of fewer units make intervals too narrow; then θ̂ ± t · s, with the standard error s
    of the jackknife (Tukey 1958) and U − 1 degrees of freedom.

    Units without anything to score do not count.

    Args:
        sums: What the scores are computed from, a row for each unit, (U, K).
        scores: From summed rows to scores.

    Returns:
        An interval for each score; None for a score that some resamples do not have, and for all of
        them if there are fewer than 10 units.
    """
    sums = sums[(sums != 0).any(axis=1)]
    units = len(sums)
    total = sums.sum(0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        estimates = scores(total)
        if units < FEWEST_UNITS:
            return [None] * len(estimates)
        left_out = scores(total - sums)
        if units < FEWEST_FOR_BOOTSTRAP:
            return [_t_interval(*columns) for columns in zip(estimates.tolist(), left_out.T, strict=True)]
        draws = scores(resampled(sums))
    return [_bca_interval(*columns) for columns in zip(estimates.tolist(), left_out.T, draws.T, strict=True)]


def mean_interval(values: Array, weights: Array) -> Interval | None:
    """The interval of Σ values / Σ weights over units. Shape: each (U,)."""
    return mean_intervals(np.column_stack([values, weights]))[0]


def _t_interval(estimate: float, left_out: Array) -> Interval | None:
    """`left_out`: the score without each of the units, (U,)."""
    if not np.isfinite(left_out).all():
        return None
    units = len(left_out)
    variance = (units - 1) / units * float(((left_out - left_out.mean()) ** 2).sum())
    half = t_quantile(units - 1) * math.sqrt(variance)
    return estimate - half, estimate + half


def _bca_interval(estimate: float, left_out: Array, draws: Array) -> Interval | None:
    """`left_out`: the score without each of the units, (U,); `draws`: of each resample, (R,)."""
    if not (np.isfinite(left_out).all() and np.isfinite(draws).all()):
        return None
    deviations = left_out.mean() - left_out
    largest = float(np.abs(deviations).max())
    if largest == 0:
        return estimate, estimate
    scaled = deviations / largest  # no cube overflows, or is rounded to 0
    acceleration = float((scaled**3).sum()) / (6 * float((scaled**2).sum()) ** 1.5)

    count = len(draws)
    below = np.count_nonzero(draws < estimate) + np.count_nonzero(draws == estimate) / 2
    bias = _NORMAL.inv_cdf(min(max(below, 1), count - 1) / count)

    ranked = np.sort(draws)
    ends = []
    for tail in _TAILS:
        shifted = bias + _NORMAL.inv_cdf(tail)
        corrected = bias + shifted / (1 - acceleration * shifted)
        ends.append(_quantile(ranked, _NORMAL.cdf(corrected)))
    return ends[0], ends[1]


def _quantile(ranked: Array, share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    place = math.ceil(share * len(ranked) - 1e-9)
    return float(ranked[min(max(place, 1), len(ranked)) - 1])


def wilson(share: float, count: float) -> Interval:
    """The Wilson interval of a share of `count` independent answers (Wilson 1927).

    It has a width for the shares 0 and 1, too.
    """
    z2 = _Z**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    spread = share * (1 - share) / count + z2 / (4 * count**2)
    half = _Z / (1 + z2 / count) * math.sqrt(max(0.0, spread))
    low = 0.0 if share == 0 else max(0.0, middle - half)
    high = 1.0 if share == 1 else min(1.0, middle + half)
    return low, high


def share_interval(right: Array, count: Array) -> Interval | None:
    """Wilson's interval of a share.

    Answers in one text are alike. If texts have several answers, their number is replaced by an
    effective one (Korn and Graubard 1998; Dean and Pagano 2015 for Wilson's interval).

    Args:
        right: The right answers in each unit, (U,).
        count: All answers in each unit, (U,).

    Returns:
        None where fewer than 10 units have an answer.
    """
    answered = count > 0
    right, count = right[answered], count[answered]
    if len(count) < FEWEST_UNITS:
        return None
    share = float(right.sum() / count.sum())
    return wilson(share, _effective_count(right, count, share))


def _effective_count(right: Array, count: Array, share: float) -> float:
    """How many independent answers say as much about the share. Shape: right, count (U,).

    The design effect (Kish 1965) is the variance of the share over units, by linearization, as a
    multiple of the variance of independent answers. Few units with the rarer answer do not show it:
    below ten of them, it moves to its largest value, that of units whose answers are all alike.
    """
    total, units = float(count.sum()), len(count)
    if total == units:
        return total
    largest = float((count**2).sum()) / total
    rarer = right if share < 0.5 else count - right
    seen = min(int(np.count_nonzero(rarer)), FEWEST_UNITS) / FEWEST_UNITS
    estimated = 0.0
    if 0 < share < 1:
        variance = units / (units - 1) * float(((right - share * count) ** 2).sum()) / total**2
        estimated = variance / (share * (1 - share) / total)
    effect = max(1.0, seen * estimated + (1 - seen) * largest)
    freedom = min(units - 1, MOST_FREEDOM)
    return total / effect * (_Z / t_quantile(freedom)) ** 2


def unseen_error(units: int) -> float:
    """The share of mistakes that so many texts without one do not exclude.

    It is what the Wilson interval of a share of 1 leaves open.

    >>> round(unseen_error(41), 4)
    0.0857
    """
    return _Z**2 / (units + _Z**2)


def unseen_error_of_labels(units: Sequence[int]) -> float:
    """As `unseen_error`, for the mean over labels with so many texts each.

    Put together from independent limits for each label: MOVER (Zou and Donner 2008, equation 3).
    """
    squares = sum(unseen_error(count) ** 2 for count in units)
    return math.sqrt(squares) / len(units)


def percentile_interval(draws: Array) -> Interval | None:
    """The middle 95 % of the resamples of a score, (R,) (Efron 1979).

    Returns:
        None if a resample has no score.
    """
    if np.isnan(draws).any():
        return None
    ranked = np.sort(draws)
    return _quantile(ranked, _TAILS[0]), _quantile(ranked, _TAILS[1])


def bounded_interval(draws: Array, mistaken: int, unseen_error: float, limit: float = 1.0) -> Interval | None:
    """The interval of a score between 0 and a limit: percentiles, but never without a width.

    Resamples of texts that are all right are all right, too. So the interval reaches down to what
    texts without a mistake do not exclude. With ten mistaken texts, nothing is added any more.

    Args:
        draws: The score of each resample, (R,).
        mistaken: How many texts have a mistake.
        unseen_error: The share of mistakes that texts without one do not exclude.
        limit: The largest score.

    Returns:
        None if a resample has no score.
    """
    between = percentile_interval(draws)
    if between is None:
        return None
    low, high = between
    allowance = unseen_error * max(0.0, 1 - mistaken / FEWEST_UNITS)
    if allowance:
        low = min(low, limit * (1 - allowance))
    if high == 0:  # no text has anything right
        high = limit * unseen_error
    return low, high


def difference_interval(draws: Array, unseen_difference: float = 0.0) -> Interval | None:
    """The interval of the difference of two scores on the same text: percentiles.

    Args:
        draws: The differences in paired resamples, (R,).
        unseen_difference: What the scores may still differ by if all resamples agree.
    """
    between = percentile_interval(draws)
    if between is not None and between[0] == between[1]:
        return between[0] - unseen_difference, between[1] + unseen_difference
    return between


def paired_intervals(first: Array, others: Array, weights: Array) -> list[Interval | None]:
    """Intervals of (Σ first − Σ other) / Σ weights for each column of others, unit by unit.

    Shape: first, weights (U,); others (U, S).
    """
    return mean_intervals(np.column_stack([first[:, None] - others, weights]))
