"""Sinusoidal encodings and rotary positions, by hand and by the properties they are chosen for."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.layers.rotary import rotate, rotation
from tfcli.layers.sinusoidal import sinusoidal_encoding


def test_position_0_is_sine_0_and_cosine_0():
    assert sinusoidal_encoding(1, 6).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_sinusoidal_values_by_hand():
    """D = 4, base 10000: dimensions 0, 1 turn with n, dimensions 2, 3 with n / 10000^(2/4) = n / 100."""
    expected = [[math.sin(n), math.cos(n), math.sin(n / 100), math.cos(n / 100)] for n in range(4)]
    torch.testing.assert_close(sinusoidal_encoding(4, 4), torch.tensor(expected))
    assert sinusoidal_encoding(3, 4)[2, 0].item() == pytest.approx(0.909297, abs=1e-6), "sin 2"
    assert sinusoidal_encoding(3, 4)[2, 3].item() == pytest.approx(0.999800, abs=1e-6), "cos 0.02"


def test_an_odd_size_ends_on_a_sine_and_another_base_changes_the_wavelengths():
    """D = 3, base 8: dimension 2 is sin(n / 8^(2/3)) = sin(n / 4)."""
    expected = [[math.sin(n), math.cos(n), math.sin(n / 4)] for n in range(9)]
    torch.testing.assert_close(sinusoidal_encoding(9, 3, base=8.0), torch.tensor(expected))


def test_the_longest_table_is_as_exact_as_the_shortest():
    """The angle at position 100,000 is too large for float32 (steps of 0.008 there): it must be taken in
    float64."""
    last = sinusoidal_encoding(100_001, 2)[-1]
    torch.testing.assert_close(last, torch.tensor([math.sin(100_000), math.cos(100_000)]))


@pytest.mark.parametrize("step", [1, 3, 10])
def test_going_on_by_k_is_one_rotation_wherever_it_starts(step: int):
    """Bishop's consistent distance: r_{n+k} = R_k r_n, with R_k turning pair i by k / base^(2i/D), free of
    n."""
    table = sinusoidal_encoding(40, 8, base=50.0).double()
    for pair in range(4):
        angle = step / 50 ** (2 * pair / 8)
        sine, cosine = table[:-step, 2 * pair], table[:-step, 2 * pair + 1]
        later = table[step:, 2 * pair : 2 * pair + 2]
        turned = [
            sine * math.cos(angle) + cosine * math.sin(angle),
            cosine * math.cos(angle) - sine * math.sin(angle),
        ]
        torch.testing.assert_close(torch.stack(turned, -1), later, atol=1e-6, rtol=0)


def turn(x: torch.Tensor, position: int, base: float = 10_000.0) -> torch.Tensor:
    """One vector, turned as at one position."""
    return rotate(x.view(1, 1, 1, -1), rotation(torch.tensor([position]), x.numel(), base)).flatten()


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


def test_position_0_turns_nothing():
    x = torch.arange(1.0, 9.0)
    torch.testing.assert_close(turn(x, 0), x, atol=0, rtol=0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 500), st.integers(0, 1000))
def test_a_product_depends_on_the_distance_alone_and_lengths_stay(query_at, key_at, shift, seed):
    query, key = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed)).double()
    here = turn(query, query_at) @ turn(key, key_at)
    there = turn(query, query_at + shift) @ turn(key, key_at + shift)
    torch.testing.assert_close(there, here, atol=1e-5, rtol=0)
    torch.testing.assert_close(turn(query, query_at).norm(), query.norm(), atol=1e-6, rtol=0)


def test_a_product_does_depend_on_the_distance():
    x = torch.ones(8)
    products = [(turn(x, 0) @ turn(x, distance)).item() for distance in (0, 1, 2)]
    assert products[0] == pytest.approx(8)
    assert products[0] > products[1] > products[2]
