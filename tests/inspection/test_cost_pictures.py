"""One attention cut into heads, beside other layers, and measured."""

import pytest

from tests.models.small import section
from tfcli.errors import UsageError
from tfcli.inspection.cost import compute as cost_measured
from tfcli.inspection.cost.compute import cost_against, heads_cost, measured_cost, require_measurable


def test_heads_cost_the_same_products_and_more_exponentials():
    """D = 16, N = 6, two sequences: 2 · (4 · 2·6·16² + 2 · 2·6²·16) operations, and 2 · 36 k exponentials."""
    record = heads_cost(section(num_kv_heads=1), [1, 2, 8], 6, 2)
    assert [one.flops for one in record.counts] == [2 * (8 * 6 * 256 + 4 * 36 * 16)] * 3
    assert [one.exponentials for one in record.counts] == [72, 144, 576]
    assert [one.parameters for one in record.counts] == [4 * 256] * 3
    assert [one.head_dim for one in record.counts] == [16, 8, 2]
    assert all(one.seconds > 0 for one in record.counts)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(UsageError, match="--heads 3 does not divide d_model = 16"):
        heads_cost(section(), [3], 6)


def test_a_fully_connected_layer_grows_with_the_square_of_n_and_fits_one_n():
    """D = 16: (16 N)² + 16 N parameters; attention has 4 · 16² whatever N is."""
    four, eight = cost_against(section(), "dense", (4, 8)).lengths
    assert (four.other.parameters, eight.other.parameters) == (64**2 + 64, 128**2 + 128)
    assert four.attention.parameters == eight.attention.parameters == 4 * 256
    assert (four.other.another_length, four.attention.another_length) == (False, True)
    assert four.other.flops == 2 * 64**2
    assert (four.other.steps, four.other.path, four.attention.steps, four.attention.path) == (1, 1, 1, 1)


def test_a_recurrent_layer_waits_for_every_token():
    """Two matrices and two biases: 2 · 16² + 2 · 16; a token costs two products of 16²."""
    [at] = cost_against(section(), "rnn", (8,)).lengths
    assert (at.other.parameters, at.other.flops) == (2 * 256 + 32, 8 * 4 * 256)
    assert (at.other.steps, at.other.path, at.other.another_length) == (8, 7, True)


def test_measured_seconds_stand_beside_predicted_ones(monkeypatch: pytest.MonkeyPatch):
    """A machine of 1 MFLOP/s: what is predicted to last is left out, but for the length that was asked for."""
    monkeypatch.setattr(cost_measured, "products_a_second", lambda: 1e6)
    monkeypatch.setattr(cost_measured, "seconds_in_turns", lambda calls: [2.0])
    record = measured_cost(section(), 300, 1, lambda step: None)
    known = {at.length: (at.seconds, at.predicted_seconds) for at in record.lengths if at.seconds is not None}
    assert 1024 not in known
    assert known[300] == (2.0, next(at.flops for at in record.lengths if at.length == 300) / 1e6)


def test_weights_that_are_too_large_are_refused():
    require_measurable(1 << 30)
    with pytest.raises(UsageError, match=r"26\.2 GB"):
        require_measurable(6_541_807_616)
