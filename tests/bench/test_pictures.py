"""How long drawing takes: forms in turns, by a clock of one's own."""

import numpy as np
import pytest

from tfcli.bench.pictures import measure_pictures, random_head


def test_forms_are_drawn_in_turns_and_the_warm_up_does_not_count(monkeypatch: pytest.MonkeyPatch):
    """Drawing n takes n seconds: "a" 1, 3 and 5, "bb" 2, 4 and 6; the first of each is left out."""
    now, drawn = [0.0], []

    def draw(form: str) -> str:
        drawn.append(form)
        now[0] += len(drawn)
        return "é" * len(form)

    monkeypatch.setattr("tfcli.bench.pictures.time.perf_counter", lambda: now[0])
    speed = measure_pictures({"a": lambda: draw("a"), "bb": lambda: draw("bb")}, 8, 40, 2)
    assert drawn == ["a", "bb"] * 3
    assert [one.seconds.p50 for one in speed.times] == [4.0, 5.0]
    assert [(one.form, one.size) for one in speed.times] == [("a", 2), ("bb", 4)], "bytes, and not letters"
    assert (speed.tokens, speed.columns, speed.rounds) == (8, 40, 2)


def test_the_head_has_weights_of_the_past_that_sum_to_1():
    weights = random_head(5).weights[0, 0]
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-6)
    assert not np.triu(weights, 1).any()
