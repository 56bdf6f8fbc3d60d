"""T5's buckets of distances, by hand and against the authors' formula as `transformers` has it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.layers.relative_bias import RelativeBias, relative_buckets
from tfcli.recipe.model import ModelSection


def bucket(distance: int, *, bidirectional: bool, buckets: int = 32, max_distance: int = 128) -> int:
    """The bucket of key − query = `distance`."""
    table = relative_buckets(
        torch.tensor([[distance]]), buckets=buckets, max_distance=max_distance, bidirectional=bidirectional
    )
    return int(table)


def test_one_way_half_of_the_buckets_hold_one_distance_each():
    """32 buckets: keys 0 … 15 before the query have their own; whatever lies after it shares bucket 0."""
    assert [bucket(-distance, bidirectional=False) for distance in range(16)] == [*range(16)]
    assert bucket(1, bidirectional=False) == bucket(100, bidirectional=False) == 0


def test_one_way_the_other_half_grows_by_a_constant_factor():
    """16 buckets from 16 to 128, eight times as far: each ends 8^(1/16) = 2^(3/16) = 1.1388 times where it began. The
    boundaries 16 · 2^(3k/16) for k = 1, 2, 3 … are 18.22, 20.75, 23.63, …; for k = 15 112.4."""
    boundaries = {16: 16, 18: 16, 19: 17, 20: 17, 21: 18, 23: 18, 24: 19, 112: 30, 113: 31, 127: 31, 128: 31, 9999: 31}
    assert {distance: bucket(-distance, bidirectional=False) for distance in boundaries} == boundaries


def test_both_ways_each_side_has_half():
    """32 buckets: 16 a side; distances 0 … 7 have their own, and 8 more buckets reach from 8 to 128, sixteen times as
    far, each 16^(1/8) = √2 wide: boundaries at 8 · √2 = 11.3, 16, 22.6, 32, 45.3, 64 and 90.5. Later keys come 16
    further."""
    boundaries = {0: 0, 7: 7, 8: 8, 11: 8, 12: 9, 15: 9, 17: 10, 22: 10, 23: 11, 31: 11, 33: 12, 46: 13, 63: 13, 65: 14}
    boundaries |= {90: 14, 91: 15, 128: 15, 5000: 15}
    assert {distance: bucket(-distance, bidirectional=True) for distance in boundaries} == boundaries
    after = {distance: number + 16 for distance, number in boundaries.items() if distance}
    assert {distance: bucket(distance, bidirectional=True) for distance in after} == after


def test_the_fewest_buckets():
    """4 buckets one way, up to 8: 0 and 1 on their own, the third from 2 to 2 · √(8/2) = 4, the last beyond. Both ways:
    2 a side, of which one holds a single distance (0, of which there is no other side) and one all others."""
    assert [bucket(-d, bidirectional=False, buckets=4, max_distance=8) for d in range(7)] == [0, 1, 2, 2, 3, 3, 3]
    assert [bucket(d, bidirectional=True, buckets=4, max_distance=8) for d in (-9, -1, 0, 1, 9)] == [1, 1, 0, 3, 3]


@settings(max_examples=100, deadline=None)
@given(st.integers(4, 64).map(lambda n: n // 4 * 4), st.integers(1, 300), st.booleans(), st.integers(1, 300))
def test_buckets_are_those_of_transformers(buckets: int, beyond: int, bidirectional: bool, length: int):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="the dev extra brings it")
    settings = {"bidirectional": bidirectional, "max_distance": buckets // 2 + beyond}
    distances = torch.arange(-length, length + 1)[None]
    expected = t5.T5Attention._relative_position_bucket(distances, num_buckets=buckets, **settings)
    assert torch.equal(relative_buckets(distances, buckets=buckets, **settings), expected)


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 40), st.integers(1, 200), st.booleans())
def test_buckets_grow_with_the_distance_and_all_are_numbers_of_rows(buckets: int, beyond: int, bidirectional: bool):
    buckets -= buckets % 2 if bidirectional else 0
    before = relative_buckets(
        -torch.arange(500)[None], buckets=buckets, max_distance=buckets // 2 + beyond, bidirectional=bidirectional
    )[0]
    assert (before.diff() >= 0).all()
    assert before[0] == 0 and before[-1] == (buckets // 2 if bidirectional else buckets) - 1


def relative_bias(bidirectional: bool) -> RelativeBias:
    section = ModelSection(d_model=4, num_heads=2, positions="t5", position_buckets=8, position_max_distance=10)
    module = RelativeBias(section, bidirectional=bidirectional).double()
    with torch.no_grad():
        module.weight.copy_(torch.arange(16.0).view(8, 2))
    return module


def test_the_bias_is_a_number_a_head_for_a_bucket():
    """Row r of the table holds (2r, 2r + 1). One way, head 0, three tokens: distances back 0, 1, 2 give 0, 2, 4; head 1
    one more."""
    bias = relative_bias(bidirectional=False)(3, 3)
    assert bias.shape == (1, 2, 3, 3)
    assert bias[0, 0].tolist() == [[0, 0, 0], [2, 0, 0], [4, 2, 0]]
    assert torch.equal(bias[0, 1], bias[0, 0] + 1)


def test_both_ways_before_and_after_differ():
    """8 buckets, 4 a side: after by 1 is bucket 5, by 2 bucket 6."""
    assert relative_bias(bidirectional=True)(3, 3)[0, 0].tolist() == [[0, 10, 12], [2, 0, 10], [4, 2, 0]]


def test_queries_after_a_cache_are_the_last_rows():
    module = relative_bias(bidirectional=False)
    assert torch.equal(module(2, 7), module(7, 7)[:, :, 5:])


def test_the_gradient_of_a_relative_bias():
    """Each number's is how often its bucket occurs."""
    module = relative_bias(bidirectional=True)
    assert torch.autograd.gradcheck(lambda _: module(3, 4), [module.weight])
    (gradient,) = torch.autograd.grad(module(3, 3).sum(), module.weight)
    assert gradient[:, 0].tolist() == [3, 2, 1, 0, 0, 2, 1, 0]
