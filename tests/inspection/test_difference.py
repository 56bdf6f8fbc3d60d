"""Differences by hand, and what cannot be compared."""

from dataclasses import replace

import numpy as np
import pytest

from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.compute import difference, require_same_tokens
from tfcli.records.arrays import frozen

FIRST = [[1, 0], [0.75, 0.25]]
SECOND = [[1, 0], [0.125, 0.875]]


def record(*heads: object, tokens: tuple[str, ...] = ("a", "b")) -> AttentionRecord:
    return AttentionRecord("decoder_self", tokens, tokens, frozen([heads]))


def test_two_heads_of_one_text():
    """¾ − ⅛ = ⅝ and ¼ − ⅞ = −⅝; nothing else differs."""
    one = record(FIRST, SECOND)
    found = difference(one, one, ((0, 0), (0, 1)), ("layer 0, head 0", "layer 0, head 1"))
    assert found.differences.tolist() == [[0, 0], [0.625, -0.625]]
    assert found.largest == ((1, 0), (1, 1))
    assert found.place == "", "the names say which heads they are"


def test_one_head_of_two_texts_names_its_place_and_both_sides_tokens():
    found = difference(
        record(FIRST), record(SECOND, tokens=("a", "c")), ((0, 0), (0, 0)), ("“a b”", "“a c”"), largest=1
    )
    assert found.place == "layer 0, head 0"
    assert (found.query_tokens, found.other_query_tokens) == (("a", "b"), ("a", "c"))
    assert found.largest == ((1, 0),)


def test_rows_of_a_difference_sum_to_nothing():
    found = difference(record(FIRST), record(SECOND), ((0, 0), (0, 0)), ("x", "y"))
    np.testing.assert_allclose(found.differences.sum(axis=1), 0, atol=1e-7)


def test_the_same_twice_has_no_largest():
    assert difference(record(FIRST), record(FIRST), ((0, 0), (0, 0)), ("x", "y")).largest == ()


def test_texts_of_other_lengths_are_refused_with_both_counts():
    with pytest.raises(UsageError, match="“one” has 2 tokens and “two” 1 tokens: a difference needs as many"):
        difference(record(FIRST), record([[1]], tokens=("a",)), ((0, 0), (0, 0)), ("“one”", "“two”"))


def test_of_cross_attention_both_sides_are_counted():
    ours = AttentionRecord("cross", ("a",), ("x", "y"), frozen([[[[0.5, 0.5]]]]))
    theirs = AttentionRecord("cross", ("a", "b"), ("x", "y"), frozen([[[[0.5, 0.5], [1, 0]]]]))
    with pytest.raises(UsageError, match="p has 2 source and 1 target tokens and q 2 source and 2 target tokens"):
        difference(ours, theirs, ((0, 0), (0, 0)), ("p", "q"))


def test_other_tokens_are_refused_with_the_first_that_differs():
    ours = record(FIRST)
    with pytest.raises(UsageError, match="runs/b reads other tokens: token 1 is 'c', and here 'b'"):
        require_same_tokens(ours, record(FIRST, tokens=("a", "c")), "runs/b")
    with pytest.raises(UsageError, match="token 1 is 'the end', and here 'b'"):
        require_same_tokens(ours, record([[1]], tokens=("a",)), "runs/b")
    require_same_tokens(ours, record(SECOND), "runs/b")


def test_what_one_side_alone_hides_is_a_difference_and_a_weight_that_became_0_is_a_number():
    """Causal against all keys: only the cells that both hide have no value."""
    ours = replace(record([[1, 0], [1, 0]]), mask=frozen(np.tri(2), np.bool_))
    theirs = replace(record([[0.5, 0.5], [1, 0]]), mask=frozen(np.ones((2, 2)), np.bool_))
    places = ((0, 0), (0, 0))
    assert difference(ours, theirs, places, ("x", "y")).visible_differences.tolist() == [[0.5, -0.5], [0, 0]]
    both = difference(ours, ours, places, ("x", "y"))
    assert np.isnan(both.visible_differences).tolist() == [[False, True], [False, False]]
