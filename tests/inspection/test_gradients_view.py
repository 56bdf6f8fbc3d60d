"""The picture of gradients: its numbers, what is below rounding, its floor, and its words."""

import math

import numpy as np
import pytest

from tests.support.consoles import printed
from tfcli.inspection.gradients import GradientProfile, GradientsRecord, NormGradients, StackGradients
from tfcli.inspection.gradients.view import GradientsView, gradients_table

NAN = math.nan
NORMS = NormGradients(*(np.array(pair) for pair in ((0.8, 0.2), (0.4, 0.1), (0.25, NAN), (0.01, 0.0), (2.0, 1.5))))


def stack(side: str, norms: list[float], apart: list[float], backward: NormGradients | None = None) -> StackGradients:
    values = np.array(norms)
    return StackGradients(side, values, values / 2, np.array(apart), backward)  # type: ignore[arg-type]


def profile(placement: str | None, residuals: bool, *stacks: StackGradients) -> GradientProfile:
    return GradientProfile(placement, residuals, False, 5.0, stacks)  # type: ignore[arg-type]


RECORD = GradientsRecord(
    "encoder-decoder",
    "gpt2",
    64,
    4,
    128,
    False,
    (
        profile("pre", True, stack("encoder", [1, 0.5], [0.9, 0.8]), stack("decoder", [1, 0.5], [0.9, 0.8], NORMS)),
        profile("post", True, stack("encoder", [2, 2], [0.9, 0.8]), stack("decoder", [0.5, 4], [0.6, 0.3])),
        profile("pre", False, stack("encoder", [40, 0.4], [0.5, 1e-3]), stack("decoder", [NAN, 3], [NAN, NAN])),
        profile(None, False, stack("encoder", [1e-20, 2.5], [0.5, NAN]), stack("decoder", [NAN, NAN], [0.5, 0.1])),
    ),
)


def test_the_numbers_of_every_layer_and_their_spread():
    lines = [line.split() for line in printed(GradientsView(RECORD), 80).splitlines()]
    assert ["0", "1.00", "2.00", "40.0", "1.0e-20"] in lines
    assert ["spread", "2.00", "1.00", "100", "2.5e+20"] in lines
    assert ["0", "0.900", "0.900", "0.500", "0.500"] in lines


def test_what_is_below_rounding_stands_in_no_spread_and_in_no_ratio():
    shown = printed(GradientsView(RECORD), 80)
    lines = [line.split() for line in shown.splitlines()]
    assert ["0", "1.00", "0.500", "rounding", "rounding"] in lines
    assert ["spread", "2.00", "8.00", "–", "–"] in lines
    assert "nan" not in shown
    together = " ".join(shown.split())
    assert "the gradients of 1 of 2 layers are below rounding and tell nothing; from layer 0 on less than" in together
    assert "the gradients of 2 of 2 layers are below rounding and tell nothing." in together


@pytest.mark.parametrize("width", [60, 80, 140])
def test_each_stack_has_its_own_words_at_every_width(width: int):
    shown = printed(GradientsView(RECORD), width)
    assert max(map(len, shown.splitlines())) <= width
    encoder, decoder = (" ".join(part.split()) for part in shown.split("In the ")[1:])
    assert "encoder: a pre-norm: the last layer's gradient is 0.500 times the first's. b post-norm: the last" in encoder
    assert "from layer 1 on less than 1% of a vector is its token's own: rank collapse" in encoder
    assert "Before training, pre-norm's gradients are spread 2.00 times as far as post-norm's." in encoder
    assert "decoder: a pre-norm: the last layer's gradient is 0.500 times the first's." in decoder
    assert "b post-norm: the last layer's gradient is 8.00 times the first's." in decoder
    assert "Before training, post-norm's gradients are spread 4.00 times as far as pre-norm's." in decoder
    assert "Norms below 4.0e-09 lie on the floor of the plot" in " ".join(shown.split("decoder: log10")[0].split())
    assert shown.count("floor") == 1
    for letter, name in zip("abc", ("pre-norm", "post-norm", "pre-norm, no residuals"), strict=True):
        assert f"{letter} {name} · loss 5.000" in shown


def test_what_a_norm_does_to_a_gradient():
    lines = [line.split() for line in printed(GradientsView(RECORD), 80).splitlines()]
    assert ["a", "0", "0.800", "25.0%", "1.0%", "2.00", "0.400"] in lines
    assert ["a", "1", "0.200", "rounding", "0.0%", "1.50", "0.100"] in lines


def test_the_csv_has_a_row_a_layer_and_nothing_where_nothing_is_known():
    rows = [list(row) for row in gradients_table(RECORD).rows]
    assert rows[0] == ["pre-norm", "encoder", 0, 1.0, 0.5, 0.9]
    assert rows[-1] == ["no norms, no residuals", "decoder", 1, None, None, 0.1]
