"""The strongest weights of a head, by hand."""

import numpy as np
import pytest

from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.choice import cropped
from tfcli.inspection.attention.compute import strongest_edges
from tfcli.records.arrays import frozen

HEAD = [[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.5, 0.375]]
RECORD = AttentionRecord("decoder_self", ("a", "b", "c"), ("a", "b", "c"), frozen([[HEAD]]))


def test_strongest_first_with_what_is_masked():
    """Six cells are not 0; 1 + .75 + .5 of 3 are three quarters."""
    found = strongest_edges(RECORD, 3)
    assert [(edge.query, edge.key, edge.weight) for edge in found.edges] == [(0, 0, 1.0), (1, 1, 0.75), (2, 1, 0.5)]
    assert [edge.only for edge in found.edges] == [True, False, False]
    assert (found.possible, found.masked, found.share) == (6, 3, 0.75)
    assert found.edges[2].query_token == "c"
    assert found.place == "layer 0, head 0"


def test_all_there_are_and_no_masked_cell():
    found = strongest_edges(RECORD, 99)
    assert len(found.edges) == found.possible == 6
    assert found.share == pytest.approx(1)
    assert min(edge.weight for edge in found.edges) == 0.125


def test_a_weight_too_small_for_a_number_is_not_masked():
    """e⁻²⁰⁰ is 0 as a float32, and yet the query may look there: the mask tells."""
    record = AttentionRecord(
        "decoder_self", ("a", "b"), ("a", "b"), frozen([[[[1, 0], [1, 0]]]]), mask=frozen([[1, 0], [1, 1]], np.bool_)
    )
    found = strongest_edges(record, 9)
    assert (found.possible, found.masked, len(found.edges)) == (3, 1, 3)
    assert [edge.only for edge in found.edges] == [True, False, False]


def test_of_equal_weights_the_earlier_comes_first():
    alike = AttentionRecord("encoder_self", ("a", "b"), ("a", "b"), frozen([[[[0.5, 0.5], [0.5, 0.5]]]]))
    found = strongest_edges(alike, 3).edges
    assert [(edge.query, edge.key) for edge in found] == [(0, 0), (0, 1), (1, 0)]


def test_a_part_s_edges_have_the_text_s_positions():
    [edge] = strongest_edges(cropped(RECORD, "2:3", "1:3"), 1).edges
    assert (edge.query, edge.key, edge.query_token, edge.key_token) == (2, 1, "c", "b")
