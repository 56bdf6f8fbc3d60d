"""What a map shows: derived by hand from two heads of two tokens."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from tfcli.explorer.scene import ReadText, map_values
from tfcli.explorer.state import Combined, View
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.heads import Head
from tfcli.records.arrays import frozen

# One layer, two heads; the first query of a decoder may look at itself alone.
WEIGHTS = np.array([[[[1, 0], [0.75, 0.25]], [[1, 0], [0.25, 0.75]]]], dtype=np.float32)
SCORES = np.array([[[[2, 9], [4, -3]], [[1, 9], [0, 1]]]], dtype=np.float32)
READING = ReadText("b", None, (AttentionRecord("decoder_self", ("a", "b"), ("a", "b"), WEIGHTS, scores=SCORES),), ())
MASK = np.tri(2, dtype=bool)
# The second head looks at nothing but itself: its other weight is too small for a float32.
SHARP = replace(READING.records[0], weights=frozen([[[[1, 0], [0.75, 0.25]], [[1, 0], [0, 1]]]]), mask=MASK)
HEAD = View(Head("decoder_self", 0, 0))
NAN = float("nan")


def same(values: np.ndarray, expected: list[list[float]]) -> None:
    np.testing.assert_allclose(values, np.array(expected), rtol=1e-6)


def test_weights_run_from_0_to_the_largest_and_masked_cells_are_empty():
    values = map_values(READING, HEAD)
    same(values.numbers, [[1, NAN], [0.75, 0.25]])
    assert (values.low, values.high, values.ends, values.signed) == (0.0, 1.0, ("0", "1"), False)


def test_on_the_logarithmic_scale_a_tenth_is_as_far_from_a_hundredth_as_from_1():
    weights = np.array([[[[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.89999, 0.1, 0.00001]]]], dtype=np.float32)
    tokens = ("a", "b", "c")
    reading = ReadText("bc", None, (AttentionRecord("decoder_self", tokens, tokens, weights),), ())
    values = map_values(reading, replace(HEAD, scale="log"))
    assert (values.low, values.high) == (-4.0, 0.0)
    assert values.shades[0, 0] == 0
    assert values.shades[1, 1] == pytest.approx(-1)
    assert values.shades[2, 2] == -4, "below a ten-thousandth nothing is told apart"


def test_row_by_row_every_row_reaches_the_top():
    values = map_values(READING, replace(HEAD, scale="row"))
    same(values.shades, [[1, NAN], [1, 1 / 3]])
    same(values.numbers, [[1, NAN], [0.75, 0.25]])


def test_scores_are_centred_on_0_and_those_of_hidden_keys_left_out():
    values = map_values(READING, replace(HEAD, quantity="scores"))
    same(values.numbers, [[2, NAN], [4, -3]])
    assert (values.low, values.high, values.signed) == (-4.0, 4.0, True)


def test_a_difference_is_this_head_less_the_marked_one():
    view = replace(HEAD, marked=Head("decoder_self", 0, 1), compared=True)
    values = map_values(READING, view)
    same(values.numbers, [[0, NAN], [0.5, -0.5]])
    assert (values.low, values.high) == (-0.5, 0.5)
    assert "layer 0, head 1" in values.meaning


@pytest.mark.parametrize(
    ("combined", "expected"),
    [("mean", [[1, NAN], [0.5, 0.5]]), ("rollout", [[1, NAN], [0.25, 0.75]])],  # rollout: (mean + I) / 2
)
def test_heads_together(combined: str, expected: list[list[float]]):
    same(map_values(READING, replace(HEAD, combined=cast(Combined, combined))).numbers, expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"place": Head("decoder_self", 0, 1)}, [[1, NAN], [0, 1]]),
        ({"place": Head("decoder_self", 0, 1), "quantity": "scores"}, [[1, NAN], [0, 1]]),
        ({"marked": Head("decoder_self", 0, 1), "compared": True}, [[0, NAN], [0.75, -0.75]]),
        ({"combined": "mean"}, [[1, NAN], [0.375, 0.625]]),
    ],
    ids=["weights", "scores", "difference", "mean"],
)
def test_a_weight_of_0_is_a_number_where_the_mask_lets_it_be_seen(
    changes: dict[str, object], expected: list[list[float]]
):
    values = map_values(ReadText("b", None, (SHARP,), ()), replace(HEAD, **changes))  # type: ignore[arg-type]
    same(values.numbers, expected)
