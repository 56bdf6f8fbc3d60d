"""Rotary positions, by hand, as complex multiplication, and by the property they are chosen for."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tfcli.layers.attention import Span
from tfcli.layers.rotary import Rotation, rotary_frequencies, rotate, rotation
from tfcli.recipe.model import ModelSection, PositionLayout

from .references import whole_rotation

LAYOUTS: tuple[PositionLayout, ...] = ("halves", "interleaved")


def turn(x: Tensor, position: int, base: float = 10_000.0, layout: PositionLayout = "halves") -> Tensor:
    """One vector, turned as at one position."""
    table = whole_rotation(torch.tensor([position]), x.numel(), base, layout=layout)
    return rotate(x.view(1, 1, 1, -1), table).flatten()


def test_a_rotation_in_the_plane_by_hand():
    """Dh = 2 at position 1: (1, 0) turns by 1 radian into (cos 1, sin 1), and (0, 1) into (−sin 1, cos 1)."""
    torch.testing.assert_close(turn(torch.tensor([1.0, 0.0]), 1), torch.tensor([math.cos(1), math.sin(1)]))
    torch.testing.assert_close(turn(torch.tensor([0.0, 1.0]), 1), torch.tensor([-math.sin(1), math.cos(1)]))


def test_pairs_and_their_speeds_by_hand():
    """Dh = 4, base 100, position 2: dimension 0 goes with 2 at the angle 2, dimension 1 with 3 at 2 /
    100^(2/4) = 0.2."""
    turned = turn(torch.tensor([1.0, 1.0, 0.0, 0.0]), 2, base=100.0)
    expected = torch.tensor([math.cos(2), math.cos(0.2), math.sin(2), math.sin(0.2)])
    torch.testing.assert_close(turned, expected)


def test_interleaved_pairs_are_neighbours():
    """The same with dimension 0 beside 1, at the angle 2, and 2 beside 3, at 0.2."""
    turned = turn(torch.tensor([1.0, 0.0, 1.0, 0.0]), 2, base=100.0, layout="interleaved")
    expected = torch.tensor([math.cos(2), math.sin(2), math.cos(0.2), math.sin(0.2)])
    torch.testing.assert_close(turned, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turning_is_complex_multiplication(layout: PositionLayout):
    """Pair i of dimensions as a complex number, times e^(i n θ), θ = base^(−2i/Dh) (Su et al. 2021, equation 12)."""
    x = torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(0)).double()
    pairs = torch.complex(*x.chunk(2, -1)) if layout == "halves" else torch.view_as_complex(x.unflatten(-1, (4, 2)))
    angles = torch.arange(5)[:, None] * 50.0 ** (-torch.arange(4) / 4)
    turned = pairs * torch.polar(torch.ones(5, 4).double(), angles.double())
    expected = (
        torch.cat((turned.real, turned.imag), -1) if layout == "halves" else torch.view_as_real(turned).flatten(-2)
    )
    actual = rotate(x, whole_rotation(torch.arange(5), 8, 50.0, layout=layout))
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)


def test_the_layouts_are_one_up_to_the_order_of_the_dimensions():
    """Dimension 2i of a neighbour pair goes to i, and 2i + 1 to i + Dh/2: reorder, turn in halves, and it is the
    neighbours' turn reordered."""
    x = torch.randn(1, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    halves, neighbours = (whole_rotation(torch.arange(6), 8, 100.0, layout=layout) for layout in LAYOUTS)
    torch.testing.assert_close(rotate(x[..., order], halves), rotate(x, neighbours)[..., order])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scaling_squeezes_positions_into_a_trained_range(layout: PositionLayout):
    """Divided by 4, position 8 turns as 2 did, and position 1 by a quarter."""
    squeezed = whole_rotation(torch.arange(9), 6, 100.0, layout=layout, scaling=4.0)
    plain = whole_rotation(torch.arange(9), 6, 100.0, layout=layout)
    torch.testing.assert_close(squeezed.cosines[8], plain.cosines[2])
    torch.testing.assert_close(squeezed.sines[8], plain.sines[2])
    assert squeezed.sines[1, 0].item() == pytest.approx(math.sin(0.25))


def test_a_part_of_the_table_is_that_of_its_positions():
    table = whole_rotation(torch.arange(9), 4, 100.0, layout="interleaved").at(Span(3, 7))
    expected = whole_rotation(torch.arange(3, 7), 4, 100.0, layout="interleaved")
    assert table.layout == "interleaved"
    assert torch.equal(table.cosines, expected.cosines) and torch.equal(table.sines, expected.sines)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_of_a_turn(layout: PositionLayout):
    table = whole_rotation(torch.arange(3), 4, 100.0, layout=layout)
    exact = Rotation(table.cosines.double(), table.sines.double(), layout)
    x = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotate(x, exact), [x])


def test_no_rotation_is_the_same_tensor():
    x = torch.ones(1, 1, 2, 4)
    assert rotate(x, None) is x


def test_position_0_turns_nothing():
    x = torch.arange(1.0, 9.0)
    torch.testing.assert_close(turn(x, 0), x, atol=0, rtol=0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 500), st.integers(0, 1000), st.sampled_from(LAYOUTS))
def test_a_product_depends_on_the_distance_alone_and_lengths_stay(query_at, key_at, shift, seed, layout):
    query, key = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed)).double()
    here = turn(query, query_at, layout=layout) @ turn(key, key_at, layout=layout)
    there = turn(query, query_at + shift, layout=layout) @ turn(key, key_at + shift, layout=layout)
    torch.testing.assert_close(there, here, atol=1e-5, rtol=0)
    torch.testing.assert_close(turn(query, query_at, layout=layout).norm(), query.norm(), atol=1e-6, rtol=0)


def test_a_product_does_depend_on_the_distance():
    x = torch.ones(8)
    products = [(turn(x, 0) @ turn(x, distance)).item() for distance in (0, 1, 2)]
    assert products[0] == pytest.approx(8)
    assert products[0] > products[1] > products[2]


def scaled(kind: str, **settings: Any) -> list[float]:
    """Each pair's angle a position, of 8 dimensions, base 10,000 and a trained context of 100, stretched 4-fold."""
    section = ModelSection(head_dim=8, max_seq_len=400, position_scaling_kind=kind, position_scaling=4.0, **settings)
    return rotary_frequencies(section, settings.get("max_seq_len", 0)).tolist()


def test_llama3_stretches_what_turns_seldom_by_hand():
    """Pairs turn 1, 1/10, 1/100 and 1/1000 radians a position: in 100 positions 15.9, 1.59, 0.159 and 0.0159 times.
    Between 1 and 4 turns, a share (1.59 − 1) / 3 = 0.197 stays: 0.1 · (0.197 + 0.803 / 4)."""
    kept = (100 * 0.1 / (2 * math.pi) - 1) / 3
    expected = [1, 0.1 * (kept + (1 - kept) / 4), 0.01 / 4, 0.001 / 4]
    assert scaled("llama3", position_trained_len=100) == pytest.approx(expected, rel=1e-12)


def test_yarn_stretches_along_the_pairs_by_hand():
    """A pair i turns 100 · 10^−i / 2π times: 8 times at i = 0.30, 0.04 times at i = 2.60. From pair 0 to pair 3 the
    stretched share grows by thirds."""
    expected = [1, 0.1 * (2 / 3 + 1 / 12), 0.01 * (1 / 3 + 2 / 12), 0.001 / 4]
    found = scaled("yarn", position_trained_len=100, position_low_turns=0.04, position_high_turns=8.0)
    assert found == pytest.approx(expected, rel=1e-12)


def test_dynamic_positions_have_a_larger_base_the_longer_the_text():
    """4 · 600/400 − 3 = 3: the base grows by 3^(8/6). Within the context nothing is stretched."""
    section = ModelSection(head_dim=8, max_seq_len=400, position_scaling_kind="dynamic", position_scaling=4.0)
    plain = [10.0**-i for i in range(4)]
    assert rotary_frequencies(section, 400).tolist() == pytest.approx(plain, rel=1e-12)
    grown = [(10_000 * 3 ** (8 / 6)) ** (-2 * i / 8) for i in range(4)]
    assert rotary_frequencies(section, 600).tolist() == pytest.approx(grown, rel=1e-12)


def test_a_part_of_a_head_is_turned_and_the_rest_stays():
    x = torch.arange(1.0, 7.0).view(1, 1, 1, 6)
    part = rotate(x, whole_rotation(torch.tensor([3]), 4, 100.0))
    torch.testing.assert_close(part[..., :4], rotate(x[..., :4], whole_rotation(torch.tensor([3]), 4, 100.0)))
    assert torch.equal(part[..., 4:], x[..., 4:])


def test_a_gain_lengthens_what_is_turned():
    x = torch.randn(1, 1, 5, 4, generator=torch.Generator().manual_seed(0))
    angles = rotary_frequencies(ModelSection(head_dim=4))
    positions = torch.arange(5)
    torch.testing.assert_close(
        rotate(x, rotation(positions, angles, gain=1.5)), 1.5 * rotate(x, rotation(positions, angles))
    )
