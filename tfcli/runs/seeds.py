"""Seeds: runs that differ in nothing else, how far apart they are, and paired differences by seed."""

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import mean, stdev

from tfcli.records import runs as records

_COVERAGE = 0.95
_LARGEST_T = 100.0  # the quantile for one degree of freedom is 12.7


def seed_spreads(runs: Sequence[records.RunDetail], settings: Sequence[records.SettingRow]) -> list[records.SeedSpread]:
    """The groups of two runs or more that differ in their seed alone.

    Args:
        runs: The compared runs.
        settings: The settings that differ between them.

    Returns:
        A spread for each group, in the order of the groups' first runs.
    """
    other_settings = [row for row in settings if row.key != "train.seed"]
    groups: dict[str, list[int]] = {}
    for place in range(len(runs)):
        groups.setdefault(repr([row.values[place] for row in other_settings]), []).append(place)
    spreads = []
    for places in groups.values():
        losses = [loss for place in places if (loss := runs[place].summary.best_loss) is not None]
        if len(losses) < 2:
            continue
        spread = records.SeedSpread(
            settings={row.key: row.values[places[0]] for row in other_settings},
            runs=tuple(places),
            mean=mean(losses),
            deviation=stdev(losses),
            lowest=min(losses),
            highest=max(losses),
        )
        spreads.append(spread)
    return spreads


def seed_differences(
    runs: Sequence[records.RunDetail],
    spreads: Sequence[records.SeedSpread],
    seeds: Sequence[int],
) -> list[records.SeedDifference]:
    """How much better or worse one group is than another, seed by seed.

    The interval is Student's for paired differences: mean ± t · s / √n with n − 1 degrees of freedom.

    Args:
        runs: The compared runs.
        spreads: Their groups.
        seeds: The seed of each run.

    Returns:
        A difference for each two groups that have two seeds or more in common.
    """
    losses_by_seed = []
    for spread in spreads:
        losses = {seeds[place]: runs[place].summary.best_loss for place in spread.runs}
        losses_by_seed.append({seed: loss for seed, loss in losses.items() if loss is not None})
    differences = []
    for first, second in combinations(range(len(spreads)), 2):
        before, after = losses_by_seed[first], losses_by_seed[second]
        common = sorted(before.keys() & after.keys())
        if len(common) < 2:
            continue
        changes = [after[seed] - before[seed] for seed in common]
        average = mean(changes)
        half = t_quantile(len(changes) - 1) * stdev(changes) / math.sqrt(len(changes))
        difference = records.SeedDifference(
            first=first,
            second=second,
            seeds=tuple(common),
            mean=average,
            low=average - half,
            high=average + half,
        )
        differences.append(difference)
    return differences


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, so that ± it covers 95 %.

    >>> [round(t_quantile(freedom), 3) for freedom in (1, 2, 4, 9)]
    [12.706, 4.303, 2.776, 2.262]
    """
    low, high = 0.0, _LARGEST_T
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _t_coverage(middle, freedom) < _COVERAGE:
            low = middle
        else:
            high = middle
    return high


def _t_coverage(t: float, freedom: int) -> float:
    """P(|T| ≤ t): a finite sum, Abramowitz and Stegun 1964, equations 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    is_odd = freedom % 2 == 1
    term = math.cos(angle) if is_odd else 1.0
    first = 3 if is_odd else 2
    total = term if freedom > 1 else 0.0
    for factor in range(first, freedom - 1, 2):
        term *= (factor - 1) / factor * math.cos(angle) ** 2
        total += term
    if is_odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
