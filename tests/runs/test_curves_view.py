"""A run's training as curves and in numbers."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv, to_json
from tfcli.records.runs import TrainingCurves
from tfcli.runs.curves_view import TrainingCurvesView, training_curves_table

CURVES = TrainingCurves(
    run="runs/a",
    groups=("all", "feed_forward"),
    steps=np.array([10, 20, 30]),
    losses=np.array([3.0, 2.0, 1.0]),
    objectives=np.array([np.nan, np.nan, np.nan]),
    learning_rates=np.array([0.001, 0.002, 0.001]),
    grad_norms=np.array([1.0, np.nan, 0.5]),
    weight_norms=np.array([[10.0, 15.0, 20.0], [4.0, 4.0, 4.0]]),
    update_ratios=np.array([[1e-2, 1e-3, 1e-4], [0.0, 1e-2, 2e-2]]),
    typical_ratios=np.array([1e-3, 1.5e-2]),
    evaluated_steps=np.array([30]),
    evaluated_losses=np.array([1.5]),
)
OLD = replace(CURVES, groups=(), weight_norms=np.empty((0, 3)), update_ratios=np.empty((0, 3)))


def test_the_table_at_80_columns():
    lines = printed(TrainingCurvesView(CURVES), 80).splitlines()
    assert lines[0] == "Training · runs/a · 3 reports"
    assert lines[-6:-3] == [
        "                 ‖w‖ first  ‖w‖ last  ‖Δw‖/‖w‖ median  ‖Δw‖/‖w‖ last",
        "a  all                  10        20          1.0e-03        1.0e-04  near 1e-3",
        "b  feed-forward          4         4          1.5e-02        2.0e-02  15 × 1e-3",
    ]


def test_the_ratios_are_drawn_as_powers_of_ten_with_the_rule_of_thumb_among_them():
    """At step 20 all move by 1e-3: their line crosses that of the rule of thumb there."""
    lines = printed(TrainingCurvesView(CURVES), 140).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("Update ratio"))
    drawn = lines[begin + 1 : begin + 13]
    assert "─ rule of thumb   a all   b feed-forward" in drawn[-1]
    at = next(line for line in drawn if line.strip().startswith("-3.0 ┤"))
    assert at.count("─") > 1
    assert drawn[0].strip().startswith("-2.0 ┤") or drawn[1].strip().startswith("-2.0 ┤")


@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_wider_than_the_terminal(width: int):
    assert max(map(len, printed(TrainingCurvesView(CURVES), width).splitlines())) <= width


def test_an_older_run_says_what_is_missing_and_shows_the_rest():
    text = printed(TrainingCurvesView(OLD), 80)
    assert "Gradient norm" in text
    assert "Update ratio" not in text
    assert "This run was trained before tfcli recorded norms" in text


def test_a_single_report_is_a_table_alone():
    one = replace(
        CURVES,
        steps=CURVES.steps[:1],
        losses=CURVES.losses[:1],
        learning_rates=CURVES.learning_rates[:1],
        grad_norms=CURVES.grad_norms[:1],
        weight_norms=CURVES.weight_norms[:, :1],
        update_ratios=CURVES.update_ratios[:, :1],
    )
    text = printed(TrainingCurvesView(one), 80)
    assert "Loss" not in text
    assert "a  all" in text


def test_csv_and_json():
    lines = to_csv(training_curves_table(CURVES)).splitlines()
    assert lines[0] == (
        "step,loss,learning_rate,grad_norm,weight_norm.all,weight_norm.feed_forward,"
        "update_ratio.all,update_ratio.feed_forward"
    )
    assert lines[2] == "20,2.0,0.002,,15.0,4.0,0.001,0.01"
    assert to_json(CURVES)["grad_norms"] == [1.0, None, 0.5]


def test_norms_are_multiples_of_the_first_that_was_recorded():
    """Begun before norms were recorded and resumed behind step 10: they count from step 20, 15 to 20."""
    late = replace(
        CURVES,
        weight_norms=np.array([[np.nan, 15.0, 20.0], [np.nan, 4.0, 4.0]]),
        update_ratios=np.array([[np.nan, 1e-3, 1e-4], [np.nan, 1e-2, 2e-2]]),
    )
    lines = printed(TrainingCurvesView(late), 80).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("Weight norm"))
    assert lines[begin] == "Weight norm ‖w‖ by group, as a multiple of its first, at step 20"
    assert any("\u2800" < sign <= "\u28ff" for line in lines[begin + 1 : begin + 7] for sign in line), "drawn in dots"
    assert "a  all                  15        20          1.0e-03        1.0e-04  near 1e-3" in lines
    uneven = replace(late, weight_norms=np.array([[np.nan, 15.0, 20.0], [4.0, 4.0, 4.0]]))
    assert "as a multiple of its first, at steps 10 to 20" in printed(TrainingCurvesView(uneven), 80)
