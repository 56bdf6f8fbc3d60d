"""The picture of gradients: its numbers, its floor, and its words."""

import numpy as np
import pytest

from tests.support.consoles import printed
from tfcli.inspection.gradients import GradientProfile, GradientsRecord, StackGradients
from tfcli.inspection.gradients.view import GradientsView, gradients_table


def profile(placement: str | None, residuals: bool, *norms: float) -> GradientProfile:
    values = np.array(norms)
    return GradientProfile(placement, residuals, False, 5.0, (StackGradients("decoder", values, values / 2),))  # type: ignore[arg-type]


RECORD = GradientsRecord(
    "decoder",
    "gpt2",
    64,
    4,
    128,
    False,
    (
        profile("pre", True, 1.0, 0.5),
        profile("post", True, 0.5, 2.0),
        profile("pre", False, 40.0, 0.4),
        profile("post", False, 30.0, 0.3),
        profile(None, False, 0.0, 2.5e-20),
    ),
)


def test_the_numbers_of_every_layer_and_their_spread():
    lines = [line.split() for line in printed(GradientsView(RECORD), 80).splitlines()]
    assert ["0", "1.00", "0.500", "40.0", "30.0", "0"] in lines
    assert ["1", "0.500", "2.00", "0.400", "0.300", "2.5e-20"] in lines
    assert ["spread", "2.00", "4.00", "100", "100", "∞"] in lines


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_words_at_every_width(width: int):
    shown = printed(GradientsView(RECORD), width)
    assert max(map(len, shown.splitlines())) <= width
    together = " ".join(shown.split())
    assert "With residuals 2.00 (pre-norm), 4.00 (post-norm): gradients reach every layer." in together
    assert "0.500 times the pre-norm's in the first layer, and 4.00 times in the last." in together
    assert "Norms below 4.0e-09 lie on the floor of the plot" in together
    for letter, name in zip("abcde", ("pre-norm", "post-norm", "pre-norm, no residuals"), strict=False):
        assert f"{letter} {name} · loss 5.000" in shown


def test_without_anything_below_it_no_floor_is_named():
    above = GradientsRecord("decoder", "gpt2", 64, 4, 128, True, RECORD.profiles[:4])
    shown = printed(GradientsView(above), 80)
    assert "floor" not in shown
    assert "of a text" in " ".join(shown.split())


def test_the_csv_has_a_row_a_layer():
    rows = [list(row) for row in gradients_table(RECORD).rows]
    assert rows[0] == ["pre-norm", "decoder", 0, 1.0, 0.5]
    assert rows[-1] == ["no norms, no residuals", "decoder", 1, 2.5e-20, 1.25e-20]
