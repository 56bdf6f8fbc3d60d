"""Bootstrap: a score is computed again and again from resamples of the documents. `intervals` makes use of it.

Efron 1979, Bootstrap methods: another look at the jackknife. For pairs of translations, Koehn 2004, Statistical
significance tests for machine translation evaluation. A resample of a score that is a function of sums is that
function of resampled sums, so that nothing is scored twice.
Shape legend: U units (documents, pairs or stretches of text), R resamples, K sums of a unit."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
# With fewer units no interval is given: too few to know how they vary.
FEWEST_UNITS = 10
MOST_UNITS = 4000  # above this, units are first put together at random: a sum varies as before, and the time is bounded
_SEED = 12345  # as in sacrebleu; the same for every run, so that results can be repeated
Array = NDArray[np.float64]
Score = Callable[[Array], Array]  # from sums, (…, K), to a score, (…); no number where there is nothing to score


def resampled(sums: Array) -> Array:
    """The sums of R resamples, each of as many units as there are, drawn with replacement: (U, K) → (R, K). Equal
    numbers of units are drawn equally, so that two models' resamples hold the same documents."""
    draw = np.random.default_rng(_SEED)
    units = len(sums)
    if units > MOST_UNITS:
        group = draw.permutation(units) % MOST_UNITS
        grouped = np.zeros((MOST_UNITS, sums.shape[1]))
        np.add.at(grouped, group, sums)
        sums, units = grouped, MOST_UNITS
    chosen = draw.integers(units, size=(RESAMPLES, units)) + units * np.arange(RESAMPLES)[:, None]
    return np.bincount(chosen.ravel(), minlength=RESAMPLES * units).reshape(RESAMPLES, units).astype(np.float64) @ sums


def p_value(differences: Array, difference: float) -> float | None:
    """How often resamples of two equal models would differ as much, whichever is the better. The `differences` (R,),
    moved to a mean difference of none, stand for what chance alone does (Efron and Tibshirani 1993, section 16.4); one
    is added above and below, so that no p-value is 0."""
    if np.isnan(differences).any():
        return None
    return (np.count_nonzero(np.abs(differences - difference) >= abs(difference)) + 1) / (len(differences) + 1)
