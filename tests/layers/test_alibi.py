"""ALiBi's slopes and biases, by the paper's own numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.layers.alibi import alibi_bias, alibi_slopes


def test_eight_heads_halve_from_one_half_to_one_256th():
    """The paper's example: 1/2, 1/4, … 1/256."""
    assert alibi_slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


def test_sixteen_heads_go_by_the_root_of_a_half():
    """The paper's other example: 1/√2, 1/2, 1/(2√2), … 1/256."""
    expected = [2 ** (-n / 2) for n in range(1, 17)]
    assert alibi_slopes(16).tolist() == pytest.approx(expected)
    assert alibi_slopes(16)[-1] == 1 / 256


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (1, [1 / 256]),
        (2, [1 / 16, 1 / 256]),
        # Two heads', then the first of four: 1/4.
        (3, [1 / 16, 1 / 256, 1 / 4]),
        # Four heads' (1/4, 1/16, 1/64, 1/256), then the first and third of eight: 1/2, 1/8.
        (6, [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]),
        # Eight heads', then the first, third, fifth and seventh of sixteen: 2^−½, 2^−1½, 2^−2½, 2^−3½.
        (12, [2.0**-n for n in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_other_numbers_of_heads_fill_up_from_the_next_power(heads: int, expected: list[float]):
    assert alibi_slopes(heads).tolist() == pytest.approx(expected)


def test_the_bias_of_a_slope_of_one_half_by_hand():
    """Three tokens: −½ times the distance, in both directions."""
    bias = alibi_bias(3, 3, torch.tensor([0.5]))
    assert bias[0, 0].tolist() == [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(0, 6), st.integers(1, 9))
def test_queries_after_a_cache_are_the_last_rows(target: int, before: int, heads: int):
    slopes, source = alibi_slopes(heads), target + before
    assert torch.equal(alibi_bias(target, source, slopes), alibi_bias(source, source, slopes)[:, :, before:])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70))
def test_slopes_are_all_different_and_never_steeper_than_one(heads: int):
    slopes = alibi_slopes(heads)
    assert len(slopes) == heads == len(set(slopes.tolist()))
    assert ((slopes > 0) & (slopes < 1)).all()


@pytest.mark.parametrize("heads", [1, 3, 8, 12, 20, 64, 71])
def test_slopes_are_those_of_bloom(heads: int):
    """Bloom adds slope times the key's position: at position 1 the slope itself."""
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom", reason="the dev extra brings it")
    theirs = bloom.build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)
    torch.testing.assert_close(alibi_slopes(heads), theirs[:, 0, 1])
