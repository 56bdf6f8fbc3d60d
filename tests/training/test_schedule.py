"""Learning rates, worked out by hand."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcli.errors import UsageError
from tfcli.recipe.train import TrainSection
from tfcli.training.schedule import learning_rate


def section(**settings: Any) -> TrainSection:
    return TrainSection(**{"steps": 110, "warmup_steps": 10, "learning_rate": 0.2, **settings})


@pytest.mark.parametrize("schedule", ["cosine", "linear", "inverse_sqrt", "constant"])
def test_the_warm_up_is_a_straight_line_to_the_peak(schedule: str):
    """Step 1 of 10 has a tenth of 0.2, step 5 half of it, step 10 all of it."""
    train = section(schedule=schedule)
    assert [learning_rate(step, train) for step in (1, 5, 10)] == pytest.approx([0.02, 0.1, 0.2])


def test_a_cosine_falls_by_half_at_half_way_and_ends_on_its_share():
    """100 steps after the warm-up, down to a tenth of 0.2. A quarter: (1 + cos 45°) / 2 = 0.853553 of the way
    from 0.02 to 0.2 is left; half: 0.5; three quarters: 0.146447; the last step: 0.02."""
    train = section(schedule="cosine", final_learning_rate=0.1)
    rates = [learning_rate(step, train) for step in (35, 60, 85, 110)]
    assert rates == pytest.approx([0.02 + 0.18 * 0.8535534, 0.11, 0.02 + 0.18 * 0.1464466, 0.02], rel=1e-6)


def test_a_cosine_to_nothing_ends_on_nothing():
    assert learning_rate(110, section(schedule="cosine", final_learning_rate=0.0)) == pytest.approx(0, abs=1e-12)


def test_the_inverse_square_root_halves_when_the_step_is_four_times_as_large():
    """peak · √(10 / step): at step 40 half the peak, at step 90 a third."""
    train = section(schedule="inverse_sqrt")
    assert [learning_rate(step, train) for step in (40, 90)] == pytest.approx([0.1, 0.2 / 3])


def test_a_constant_rate_stays():
    train = section(schedule="constant")
    assert [learning_rate(step, train) for step in (11, 60, 110)] == [0.2, 0.2, 0.2]


def test_without_a_warm_up_the_first_step_is_on_the_curve():
    """One cycle over 110 steps: 55 is half way. Inverse square root without a warm-up counts from step 1."""
    none = {"warmup_steps": 0}
    assert learning_rate(1, section(schedule="constant", **none)) == 0.2
    assert learning_rate(55, section(schedule="cosine", final_learning_rate=0.1, **none)) == pytest.approx(0.11)
    first = learning_rate(1, section(schedule="cosine", **none))
    assert 0.19 < first < 0.2
    rates = [learning_rate(step, section(schedule="inverse_sqrt", **none)) for step in (1, 4, 100)]
    assert rates == pytest.approx([0.2, 0.1, 0.02])


@pytest.mark.parametrize("schedule", ["cosine", "linear", "inverse_sqrt", "constant"])
def test_fewer_steps_than_the_warm_up_reach_the_peak_at_the_last(schedule: str):
    """With 4 steps and a warm-up of 10, the line is drawn over the 4 steps there are."""
    train = section(schedule=schedule, steps=4)
    assert [learning_rate(step, train) for step in (1, 2, 3, 4)] == pytest.approx([0.05, 0.1, 0.15, 0.2])


@pytest.mark.parametrize("schedule", ["cosine", "inverse_sqrt"])
def test_after_the_peak_it_only_falls(schedule: str):
    rates = [learning_rate(step, section(schedule=schedule)) for step in range(10, 111)]
    assert all(later < earlier for earlier, later in itertools.pairwise(rates))
    assert all(math.isfinite(rate) and rate > 0 for rate in rates)


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 1},
        {"steps": 1, "schedule": "linear"},
        {"steps": 1, "schedule": "wsd", "decay_share": 1.0},
        {"steps": 9, "schedule_steps": 1},
    ],
)
def test_a_training_in_which_every_rate_is_0_is_refused(settings: dict[str, Any]) -> None:
    nothing = {"warmup_steps": 0, "final_learning_rate": 0.0, **settings}
    with pytest.raises(UsageError, match="so nothing is learned; use more steps, or --set"):
        section(**nothing)
    for change in ({"warmup_steps": 1}, {"final_learning_rate": 0.1}, {"schedule": "constant"}, {"steps": 2}):
        allowed = nothing | {"schedule_steps": None, "steps": 1} | change
        assert max(learning_rate(step, section(**allowed)) for step in (1, 2)) > 0


@given(
    steps=st.integers(1, 4),
    schedule_steps=st.none() | st.integers(1, 4),
    warmup=st.integers(0, 2),
    final=st.sampled_from([0.0, 0.1]),
    schedule=st.sampled_from(["cosine", "linear", "inverse_sqrt", "constant", "wsd"]),
    share=st.sampled_from([0.2, 0.5, 0.6, 1.0]),
)
def test_a_training_is_refused_exactly_if_all_its_rates_are_0(
    steps: int, schedule_steps: int | None, warmup: int, final: float, schedule: Any, share: float
) -> None:
    settings = {
        "steps": steps,
        "schedule_steps": schedule_steps,
        "warmup_steps": warmup,
        "final_learning_rate": final,
        "schedule": schedule,
        "decay_share": share,
    }
    unchecked = SimpleNamespace(**({"learning_rate": 1.0} | settings))
    learns = any(learning_rate(step, unchecked) > 0 for step in range(1, steps + 1))  # type: ignore[arg-type]
    try:
        section(**settings)
    except UsageError:
        assert not learns
    else:
        assert learns
