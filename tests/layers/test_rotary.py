"""Rotary positions, by hand, as complex multiplication, and by the property they are chosen for."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tfcli.layers.rotary import Rotation, rotate, rotation
from tfcli.layers.span import Span
from tfcli.recipe.model import PositionLayout

LAYOUTS: tuple[PositionLayout, ...] = ("halves", "interleaved")


def turn(x: Tensor, position: int, base: float = 10_000.0, layout: PositionLayout = "halves") -> Tensor:
    """One vector, turned as at one position."""
    table = rotation(torch.tensor([position]), x.numel(), base, layout=layout)
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
    actual = rotate(x, rotation(torch.arange(5), 8, 50.0, layout=layout))
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)


def test_the_layouts_are_one_up_to_the_order_of_the_dimensions():
    """Dimension 2i of a neighbour pair goes to i, and 2i + 1 to i + Dh/2: reorder, turn in halves, and it is the
    neighbours' turn reordered."""
    x = torch.randn(1, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    halves, neighbours = (rotation(torch.arange(6), 8, 100.0, layout=layout) for layout in LAYOUTS)
    torch.testing.assert_close(rotate(x[..., order], halves), rotate(x, neighbours)[..., order])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scaling_squeezes_positions_into_a_trained_range(layout: PositionLayout):
    """Divided by 4, position 8 turns as 2 did, and position 1 by a quarter."""
    squeezed = rotation(torch.arange(9), 6, 100.0, layout=layout, scaling=4.0)
    plain = rotation(torch.arange(9), 6, 100.0, layout=layout)
    torch.testing.assert_close(squeezed.cosines[8], plain.cosines[2])
    torch.testing.assert_close(squeezed.sines[8], plain.sines[2])
    assert squeezed.sines[1, 0].item() == pytest.approx(math.sin(0.25))


def test_a_part_of_the_table_is_that_of_its_positions():
    table = rotation(torch.arange(9), 4, 100.0, layout="interleaved").at(Span(3, 7))
    expected = rotation(torch.arange(3, 7), 4, 100.0, layout="interleaved")
    assert table.layout == "interleaved"
    assert torch.equal(table.cosines, expected.cosines) and torch.equal(table.sines, expected.sines)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_of_a_turn(layout: PositionLayout):
    table = rotation(torch.arange(3), 4, 100.0, layout=layout)
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
