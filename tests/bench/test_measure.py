"""Turns, percentiles and ratios, by hand."""

from typing import Any

import pytest

from tfcli.bench.measure import measure, ratios, spread


class Scripted:
    """A side whose steps take what is written down; keeps the order of calls."""

    def __init__(self, name: str, seconds: list[float], calls: list[str]) -> None:
        self.name, self.seconds, self.calls = name, iter(seconds), calls
        self.answers: list[dict[str, Any]] = []

    def step(self) -> None:
        self.calls.append(self.name)
        self.answers.append({"seconds": next(self.seconds)})

    def stop(self) -> dict[str, Any]:
        self.calls.append("stop")
        return {"memory": 7}


def test_sides_step_in_turns_and_the_warmup_does_not_count():
    calls: list[str] = []
    rounds: list[str] = []
    sides: Any = [Scripted("a", [9.0, 1.0, 2.0], calls), Scripted("b", [8.0, 3.0, 4.0], calls)]
    taken = measure(sides, 2, warmup=1, tell=rounds.append)
    assert [one.seconds for one in taken] == [[1.0, 2.0], [3.0, 4.0]]
    assert [set(one.beside) for one in taken] == [{"memory"}, {"memory", "ratio", "ratio_p10", "ratio_p90"}]
    assert calls == [*(["a", "b"] * 3), "stop", "stop"]
    assert rounds == ["round 1 of 3", "round 2 of 3", "round 3 of 3"]


def test_percentiles_lie_between_the_values():
    """Of 11 values 0…10 the p-th percentile is p / 10; of (1, 3) the tenth is 1 + 0.1 · 2."""
    even = spread([float(n) for n in (3, 1, 0, 2, 10, 9, 8, 4, 7, 6, 5)])
    assert (even.p10, even.p50, even.p90) == (1.0, 5.0, 9.0)
    two = spread([3.0, 1.0])
    assert (two.p10, two.p50, two.p90) == pytest.approx((1.2, 2.0, 2.8))
    one = spread([0.5])
    assert (one.p10, one.p50, one.p90) == (0.5, 0.5, 0.5)


def test_the_ratio_is_of_medians_and_its_spread_of_rounds():
    """Medians 2 and 6: 3. Rounds: 2/1, 6/2, 40/4 = 2, 3, 10; the tenth percentile of those is 2 + 0.2 · 1."""
    found = ratios([1.0, 2.0, 4.0], [2.0, 6.0, 40.0])
    assert found["ratio"] == 3.0
    assert (found["ratio_p10"], found["ratio_p90"]) == pytest.approx((2.2, 3 + 0.8 * 7))
