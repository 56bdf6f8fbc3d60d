"""Which losses are marked: by hand, and for whole curves."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from tests.support.runs import resume_tiny, stop_after, tiny_recipe, train_tiny
from tfcli.runs.metrics import read_metrics
from tfcli.training import loop
from tfcli.training.loop import RECENT, SpikeWatch


def marked(losses: list[float]) -> list[int]:
    """The places of the losses that stand out."""
    watch = SpikeWatch()
    return [place for place, loss in enumerate(losses) if watch.is_spike(loss)]


WAVE = [2.0, 2.1] * 10
"""Its median is 2.05, and it always moves by 0.1: the limit is 2.05 + 6 · 0.1 = 2.65."""


@pytest.mark.parametrize(("loss", "is_spike"), [(2.649, False), (2.651, True), (1.0, False), (9.0, True)])
def test_the_limit_by_hand(loss: float, is_spike: bool):
    assert marked([*WAVE, loss]) == ([20] if is_spike else [])


@pytest.mark.parametrize(("loss", "is_spike"), [(2.119, False), (2.121, True)])
def test_losses_that_do_not_move_have_a_limit_of_six_hundredths(loss: float, is_spike: bool):
    """The median is 2: 2 + 6 · 0.01 · 2 = 2.12."""
    assert marked([2.0] * 20 + [loss]) == ([20] if is_spike else [])


def test_the_first_reports_are_held_against_nothing():
    """Ten must be there."""
    assert marked([2.0] * 9 + [50.0]) == []
    assert marked([2.0] * 10 + [50.0]) == [10]


def test_a_spike_does_not_hide_the_next_one():
    assert marked([*WAVE, 9.0, 2.0, 9.0, 2.1, 9.0]) == [20, 22, 24]


def test_a_loss_that_stays_high_is_the_new_level():
    """Once half of the recent ones are that high, their median is (2.1 + 9) / 2 = 5.55; it moves by 0.1 before and by
    nothing after, so that the limit is 5.55 + 6 · 0.0555 = 5.883 still, and one later that of 9."""
    assert marked([*WAVE, *[9.0] * 30]) == list(range(20, 20 + RECENT // 2 + 1))


def test_a_loss_that_falls_hides_no_spike():
    """From 4.5 to 1.5 in 40 reports, with noise of two hundredths: 1.2 above the curve is far above the noise."""
    draw = random.Random(0)
    curve = [1.5 + 3 * math.exp(-place / 15) + draw.gauss(0, 0.02) for place in range(60)]
    for place in (25, 40):
        curve[place] += 1.2
    assert marked(curve) == [25, 40]


def test_what_is_not_finite_is_passed_over():
    assert marked([*WAVE, math.nan, math.inf, 2.0, 9.0]) == [23]


def test_a_usual_training_has_none():
    """Falling from 10.8 to 3.3 along a power of the step, with noise of two hundredths."""
    draw = random.Random(0)
    curve = [3.0 + 7.8 * (1 + step) ** -0.5 + draw.gauss(0, 0.02) for step in range(600)]
    assert marked(curve) == []


@pytest.mark.parametrize("at", [5, 10, 20, 21, 40])
def test_it_goes_on_from_the_lines_of_the_metrics(at: int):
    draw = random.Random(1)
    curve = [2.0 + draw.gauss(0, 0.05) + (place % 9 == 8) for place in range(60)]
    lines = [{"event": "step", "step": place, "loss": loss} for place, loss in enumerate(curve[:at])]
    others = [{"event": "evaluated", "step": at, "loss": 99.0}, {"event": "step", "step": at, "loss": None}]
    watch = SpikeWatch([*lines, *others])
    assert (
        [place + at for place, loss in enumerate(curve[at:]) if watch.is_spike(loss)]
        == [place for place in marked(curve) if place >= at]
        != []
    )


@pytest.mark.parametrize("steps", [11, 17])
def test_spikes_are_marked_as_in_the_unbroken_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int):
    """What is reported before the interruption decides on what is marked behind it."""
    true: Callable[..., Any] = loop.optimizer_step

    def jumping(objective: Any, optimizers: Any, batches: Any, **settings: Any) -> tuple[Tensor, Tensor]:
        loss, norm = true(objective, optimizers, batches, **settings)
        return loss * (3.0 if int(batches[0].input_ids.sum()) % 5 == 0 else 1.0), norm

    monkeypatch.setattr(loop, "optimizer_step", jumping)
    often = tiny_recipe("decoder", {"train": {"steps": 28, "log_every": 1, "evaluate_every": 0}})
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train_tiny(often, whole)
    train_tiny(often, broken, stop=stop_after(steps))
    resume_tiny(broken)
    marks = [[line["spike"] for line in read_metrics(run / "metrics.jsonl")[:28]] for run in (whole, broken)]
    assert marks[0] == marks[1]
    assert any(marks[0][steps : steps + 9]), "the premise: one comes before ten reports of the second part are there"
    assert not all(marks[0][10:])
