"""Each filter against distributions worked out by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfcli.generation.sampling import (
    apply_temperature,
    draw,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    log_probabilities,
    never_generated,
    ruled_out,
    sampling_probabilities,
)
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.roles import TokenRoles

LOGITS = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=12).map(torch.tensor)


def logits_of(*probabilities: float) -> torch.Tensor:
    return torch.tensor(probabilities).log()


def kept(logits: torch.Tensor) -> list[int]:
    return logits.isfinite().nonzero().flatten().tolist()


def test_temperature_squares_or_roots_the_odds():
    """Odds 1 : 4 become (1 : 4)² = 1 : 16 at τ = ½ and √(1 : 4) = 1 : 2 at τ = 2."""
    logits = logits_of(0.2, 0.8)
    assert apply_temperature(logits, 0.5).softmax(-1).tolist() == pytest.approx([1 / 17, 16 / 17])
    assert apply_temperature(logits, 2.0).softmax(-1).tolist() == pytest.approx([1 / 3, 2 / 3])
    assert apply_temperature(logits, 1.0).softmax(-1).tolist() == pytest.approx([0.2, 0.8])


@pytest.mark.parametrize("temperature", [1e-8, 1e-300])
def test_a_tiny_temperature_is_greedy_and_no_nan(temperature: float):
    logits = torch.tensor([1.0, 3.0, -torch.inf])
    assert apply_temperature(logits, temperature).softmax(-1).tolist() == [0, 1, 0]


def test_a_huge_temperature_is_a_uniform_draw_and_no_nan():
    """Beyond the largest float32, 3.4e38: what is ruled out stays so."""
    logits = torch.tensor([1.0, 3.0, -torch.inf])
    assert apply_temperature(logits, 1e300).softmax(-1).tolist() == [0.5, 0.5, 0]


def test_top_k_keeps_the_k_best():
    assert kept(keep_top_k(logits_of(0.1, 0.4, 0.2, 0.3), 2)) == [1, 3]
    assert kept(keep_top_k(logits_of(0.1, 0.4, 0.2, 0.3), 9)) == [0, 1, 2, 3]


def test_top_k_keeps_all_that_tie_with_the_last():
    """0.2 is second and third best: neither is better than the other, so both stay."""
    assert kept(keep_top_k(torch.tensor([2.0, 1.0, 2.0, 5.0]), 2)) == [0, 2, 3]


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        # sorted: 0.5 (id 2), 0.3 (id 0), 0.15 (id 3), 0.05 (id 1); their sums: 0.5, 0.8, 0.95, 1
        (0.01, [2]),
        (0.49, [2]),
        (0.51, [0, 2]),
        (0.79, [0, 2]),
        (0.81, [0, 2, 3]),
        (0.96, [0, 1, 2, 3]),
        (1.0, [0, 1, 2, 3]),
    ],
)
def test_top_p_keeps_the_smallest_set_that_holds_p(p: float, expected: list[int]):
    assert kept(keep_top_p(logits_of(0.3, 0.05, 0.5, 0.15), p)) == expected


def test_top_p_stops_when_p_is_reached_exactly_and_takes_lower_ids_of_equals():
    """Four quarters are exact in binary: two of them hold 0.5, and the first two are taken."""
    assert kept(keep_top_p(torch.zeros(4), 0.5)) == [0, 1]


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@given(counts=st.lists(st.integers(1, 9), min_size=2, max_size=6), last=st.integers(0, 5))
def test_top_p_stops_at_an_exact_sum(precision: torch.dtype, counts: list[int], last: int) -> None:
    """Probabilities that are whole counts of a total, and a p that some of the best reach exactly in fractions."""
    counts = sorted(counts, reverse=True)
    expected = min(last, len(counts) - 2) + 1
    p = sum(counts[:expected]) / sum(counts)
    logits = logits_of(*(count / sum(counts) for count in counts)).to(precision)
    assert kept(keep_top_p(logits, p)) == list(range(expected))
    assert kept(keep_top_p(logits + 17.3, p)) == list(range(expected))


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@given(best=st.integers(1, 60), other=st.integers(1, 60))
def test_min_p_keeps_a_token_that_is_exactly_the_share(precision: torch.dtype, best: int, other: int) -> None:
    best, other = max(best, other), min(best, other)
    logits = logits_of(best / 100, other / 100).to(precision)
    assert kept(keep_min_p(logits, other / best)) == [0, 1]


@given(LOGITS, st.integers(1, 12))
def test_top_k_in_general(logits: torch.Tensor, k: int):
    """At least k tokens stay, unchanged; each is better than all that go; only ties exceed k."""
    result = keep_top_k(logits, k)
    stays = kept(result)
    goes = sorted(set(range(len(logits))) - set(stays))
    assert len(stays) >= min(k, len(logits))
    assert torch.equal(result[stays], logits[stays])
    if goes:
        assert logits[stays].min() > logits[goes].max()
    assert sum(bool(logit > logits[stays].min()) for logit in logits) < k


@given(LOGITS, st.floats(0.01, 0.99))
def test_top_p_in_general(logits: torch.Tensor, p: float):
    """What stays holds p; without its least probable member it does not; and nothing that goes is better."""
    result = keep_top_p(logits, p)
    stays = kept(result)
    goes = sorted(set(range(len(logits))) - set(stays))
    probabilities = logits.double().softmax(-1)
    mass, least = probabilities[stays].sum().item(), probabilities[stays].min().item()
    assert mass >= p - 1e-5
    assert mass - least < p + 1e-5
    assert torch.equal(result[stays], logits[stays])
    if goes:
        assert logits[stays].min() >= logits[goes].max()


def test_top_p_counts_what_temperature_and_top_k_left():
    """Of (0.4, 0.3, 0.2, 0.1) top-k 2 leaves (4/7, 3/7): now the first alone holds 0.5, which 0.4 did not."""
    settings = GenerateSection(top_k=2, top_p=0.5)
    assert kept(sampling_probabilities(logits_of(0.4, 0.3, 0.2, 0.1)[None], settings)[0].log()) == [0]


def test_min_p_keeps_what_is_a_share_as_probable_as_the_best():
    assert kept(keep_min_p(logits_of(0.5, 0.3, 0.15, 0.05), 0.29)) == [0, 1, 2]
    assert kept(keep_min_p(logits_of(0.5, 0.3, 0.15, 0.05), 0.31)) == [0, 1]
    assert kept(keep_min_p(logits_of(0.5, 0.3, 0.15, 0.05), 1.0)) == [0]
    assert kept(keep_min_p(logits_of(0.5, 0.3, 0.15, 0.05), 0.0)) == [0, 1, 2, 3]


def test_chances_by_hand():
    """Of (0.4, 0.3, 0.2, 0.1), top-k 3 leaves 4 : 3 : 2; min-p 0.6 then leaves 4 : 3."""
    logits = logits_of(0.4, 0.3, 0.2, 0.1)[None]
    assert sampling_probabilities(logits, GenerateSection(top_k=3)).flatten().tolist() == pytest.approx(
        [4 / 9, 3 / 9, 2 / 9, 0]
    )
    left = sampling_probabilities(logits, GenerateSection(top_k=3, min_p=0.6)).flatten().tolist()
    assert left == pytest.approx([4 / 7, 3 / 7, 0, 0])
    assert sampling_probabilities(logits, GenerateSection(temperature=0)).tolist() == [[1, 0, 0, 0]]


def test_draws_by_hand():
    """The cumulative probabilities are 0, ¼, ¼, ¾, 1: a token without a chance never comes, whatever u."""
    probabilities = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    uniforms = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999, 1.0], dtype=torch.float64)
    assert draw(probabilities.expand(7, -1), uniforms).tolist() == [1, 1, 3, 3, 4, 4, 4]


def test_draws_come_as_often_as_their_probability_says():
    """20,000 draws: a share has a standard deviation of at most √(¼ / 20,000) = 0.0035; five are allowed."""
    probabilities = torch.tensor([0.5, 0.3, 0.0, 0.2]).expand(20_000, -1)
    uniforms = torch.rand(20_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    shares = torch.bincount(draw(probabilities, uniforms), minlength=4) / 20_000
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0, 0.2], abs=0.018)


def test_log_probabilities_are_of_the_whole_softmax():
    logits = torch.stack((logits_of(0.25, 0.75), logits_of(0.5, 0.5))) + 3.0  # a constant changes nothing
    chosen = log_probabilities(logits, torch.tensor([1, 0]))
    assert chosen.tolist() == pytest.approx([math.log(0.75), math.log(0.5)])


def test_what_is_never_generated():
    assert never_generated(TokenRoles(pad=0, bos=1, eos=2, mask=3, unk=4), 9) == [0, 1, 3, 4]
    assert never_generated(TokenRoles(pad=0, bos=1, eos=2), 9) == [0, 1]
    # GPT-2 has one token for all: texts must still be able to end
    assert never_generated(TokenRoles(pad=7, bos=7, eos=7), 9) == []
    assert never_generated(TokenRoles(pad=0, bos=1, eos=2, known=7), 9) == [0, 1, 7, 8], "rows without a token"
    assert never_generated(TokenRoles(pad=0, bos=1, eos=2, known=7, missing=(5,)), 8) == [0, 1, 5, 7]
    assert never_generated(TokenRoles(pad=0, bos=1, eos=2, more_ends=(1,), suppressed=(6,)), 9) == [0, 6]
    assert kept((torch.zeros(2, 4) + ruled_out([0, 3], torch.zeros(2, 4)))[1]) == [1, 2]
