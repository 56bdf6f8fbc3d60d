"""Which head is shown first, by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionKind, AttentionRecord
from tfcli.inspection.attention.choice import focused


def telling(kind: AttentionKind, weights: NDArray[np.float32]) -> tuple[int, int]:
    """As `focused` finds it among tokens that are a word each."""
    tokens = ("a", "b", "c", "d")[: weights.shape[-1]]
    return focused(AttentionRecord(kind, tokens, tokens, weights)).focus


def heads(*tables: list[list[float]]) -> NDArray[np.float32]:
    """Each table is a head of one layer. Shape: (1, H, T, S)."""
    return np.array([tables], dtype=np.float32)


HABIT = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
"""The first token and the neighbours alone."""
FOUND = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.4, 0.3, 0.3, 0], [0.1, 0.6, 0.2, 0.1]]
"""The last token looks at the second."""


@pytest.mark.parametrize("kind", ["decoder_self", "encoder_self"])
def test_a_head_that_looks_elsewhere_says_more_than_a_sharp_habit(kind: AttentionKind):
    assert telling(kind, heads(HABIT, FOUND)) == (0, 1)
    assert telling(kind, heads(FOUND, HABIT)) == (0, 0)


def test_in_cross_attention_the_sharpest_head_says_most():
    """The mean of the strongest weights: 1 for the one, (1 + 0.5 + 0.4 + 0.6) / 4 for the other."""
    assert telling("cross", heads(FOUND, HABIT)) == (0, 1)


def test_the_layer_is_told_too():
    weights = np.concatenate([heads(HABIT, HABIT), heads(HABIT, FOUND)])
    assert telling("decoder_self", weights) == (1, 1)


def test_a_head_that_looks_at_a_comma_has_found_nothing():
    """Both look back by two; one of them at "," and at "b", the other one at "b" and at "c"."""
    tokens = ("a", "b", ",", "c", "d", "e")
    at_comma, at_words = np.zeros((2, 6, 6), np.float32)
    at_comma[4, 2] = at_comma[3, 1] = at_words[3, 1] = at_words[5, 3] = 1
    record = AttentionRecord("decoder_self", tokens, tokens, np.stack([at_comma, at_words])[None])
    assert focused(record).focus == (0, 1)


def test_one_token_has_a_head_as_well():
    assert telling("decoder_self", np.ones((2, 2, 1, 1), dtype=np.float32)) == (0, 0)


TOKENS = ("a", "b", "c", "d")
TWO_LAYERS = AttentionRecord(
    "decoder_self",
    TOKENS,
    TOKENS,
    np.concatenate([heads(HABIT, FOUND), heads([[0.9 * w for w in row] for row in FOUND], HABIT)]),
)
"""The head that says most is 1 in layer 0, and 0, a little weaker, in layer 1."""


@pytest.mark.parametrize(
    ("layer", "head", "focus"),
    [(None, None, (0, 1)), (1, None, (1, 0)), (None, 0, (1, 0)), (0, 0, (0, 0)), (1, 1, (1, 1))],
)
def test_what_is_not_asked_for_is_the_telling_one_of_the_rest(
    layer: int | None, head: int | None, focus: tuple[int, int]
):
    record = focused(TWO_LAYERS, layer, head)
    assert record.focus == focus
    assert record.weights is TWO_LAYERS.weights


@pytest.mark.parametrize(
    ("layer", "head", "sentence"),
    [
        (2, None, "There is no layer 2: the model has 2; choose 0 to 1"),
        (None, 2, r"There is no head 0\.2: layer 0 has heads 0 to 1"),
    ],
)
def test_a_place_that_is_not_there(layer: int | None, head: int | None, sentence: str):
    with pytest.raises(UsageError, match=sentence):
        focused(TWO_LAYERS, layer, head)


def test_narrowed_keeps_the_axes():
    assert TWO_LAYERS.narrowed(None, None).weights.shape == (2, 2, 4, 4)
    one = TWO_LAYERS.narrowed(0, 1).weights
    assert np.array_equal(one, heads(FOUND))
