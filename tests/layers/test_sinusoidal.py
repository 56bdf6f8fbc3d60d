"""The sinusoidal encoding, by hand, against Marian's, and by the properties it is chosen for."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.layers.positions import sinusoidal_encoding


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
        turned = [sine * math.cos(angle) + cosine * math.sin(angle), cosine * math.cos(angle) - sine * math.sin(angle)]
        torch.testing.assert_close(torch.stack(turned, -1), later, atol=1e-6, rtol=0)


def test_halves_are_the_same_numbers_with_all_sines_first():
    """D = 4: sin n, sin n/100, cos n, cos n/100."""
    expected = [[math.sin(n), math.sin(n / 100), math.cos(n), math.cos(n / 100)] for n in range(4)]
    torch.testing.assert_close(sinusoidal_encoding(4, 4, layout="halves"), torch.tensor(expected))


@pytest.mark.parametrize("d_model", [4, 10])
def test_halves_are_marians_table(d_model: int):
    marian = pytest.importorskip("transformers.models.marian.modeling_marian", reason="the dev extra brings it")
    theirs = marian.MarianSinusoidalPositionalEmbedding(30, d_model).create_weight()
    torch.testing.assert_close(sinusoidal_encoding(30, d_model, layout="halves"), theirs)


def test_scaling_squeezes_positions_into_a_trained_range():
    """Divided by 4, position 8 stands where 2 stood (Chen et al. 2023, equation 4)."""
    plain, squeezed = sinusoidal_encoding(9, 6), sinusoidal_encoding(9, 6, scaling=4.0)
    torch.testing.assert_close(squeezed[8], plain[2])
    torch.testing.assert_close(squeezed[1, :2], torch.tensor([math.sin(0.25), math.cos(0.25)]))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 20), st.floats(1.5, 50_000), st.floats(0.25, 8))
def test_an_offset_is_rows_left_out(d_model: int, offset: int, base: float, scaling: float):
    whole = sinusoidal_encoding(offset + 5, d_model, base, scaling=scaling)
    torch.testing.assert_close(sinusoidal_encoding(5, d_model, base, offset=offset, scaling=scaling), whole[offset:])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 16), st.floats(1.5, 50_000))
def test_numbers_are_bounded_and_positions_unique(d_model: int, base: float):
    """B8. The first pair alone turns by 1 a position, and comes back to no angle in whole numbers; a size of 1 is a
    sine, whose values may come close."""
    table = sinusoidal_encoding(100, d_model, base).double()
    assert table.abs().max() <= 1
    if d_model > 1:
        distances = torch.cdist(table, table) + 9 * torch.eye(100)
        assert distances.min() > 1e-3
