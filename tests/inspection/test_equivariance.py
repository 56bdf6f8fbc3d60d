"""Permutations, norms, one changed token and two orders, against what must be zero and what must not."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.small import ARCHITECTURES, model, section
from tfcli.errors import UsageError
from tfcli.inspection.equivariance import EquivarianceRecord
from tfcli.inspection.equivariance.compute import (
    across_tokens,
    altered,
    equivariance,
    layer_halves,
    matched,
    norms_across_tokens,
    order,
    perturbation,
)
from tfcli.inspection.passes import tower
from tfcli.models.build import build_model

IDS = (3, 1, 4, 1, 5)
TOKENS = tuple("abcbd")
POSITIONS: dict[str, dict[str, Any]] = {
    "sinusoidal": {"positions": "sinusoidal"},
    "learned": {"positions": "learned"},
    "concatenated": {"positions": "learned", "position_merge": "concat", "tie_embeddings": False},
    "into queries and keys": {"positions": "sinusoidal", "position_merge": "query_key"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "t5": {"positions": "t5"},
    "rotary in a window": {"positions": "rotary", "sliding_window": 2},
    "a window alone": {"positions": "none", "sliding_window": 2},
}


def by_variant(record: EquivarianceRecord) -> dict[tuple[bool, bool], bool]:
    return {(one.variant.positions, one.variant.masked): one.equivariant for one in record.deviations}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", POSITIONS)
def test_only_without_positions_and_mask_order_does_not_count(architecture: str, name: str):
    record = equivariance(model(architecture, **POSITIONS[name]), IDS, TOKENS, "small", permutations=3)
    assert by_variant(record) == {
        (False, False): True,
        (True, False): False,
        (False, True): False,
        (True, True): False,
    }
    own = [(one.variant.positions, one.variant.masked) for one in record.deviations if one.variant.own]
    assert own == [(True, architecture == "decoder")]


def test_a_model_without_positions_has_two_variants():
    record = equivariance(model("encoder", positions="none"), IDS, TOKENS, "small", permutations=2)
    assert by_variant(record) == {(False, False): True, (False, True): False}
    assert record.deviations[0].largest < 1e-12, "float64 rounds less"


def test_a_window_that_sees_the_whole_text_tells_nothing():
    record = equivariance(model("encoder", positions="none", sliding_window=5), IDS, TOKENS, "small", permutations=2)
    assert [one.equivariant for one in record.deviations if one.variant.own] == [True]
    assert (record.encoding, record.window) == ("none", 5)


@settings(max_examples=15, deadline=None)
@given(
    st.permutations(range(6)),
    st.sampled_from(["layernorm", "rmsnorm"]),
    st.sampled_from(["pre", "post"]),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_any_permutation_of_any_bare_model_permutes_its_output(
    places: list[int], norm: str, placement: str, kv_heads: int, query_key_norm: bool
):
    network = model(
        "encoder",
        positions="none",
        norm=norm,
        norm_placement=placement,
        num_kv_heads=kv_heads,
        query_key_norm=query_key_norm,
    )
    ids = torch.tensor([[0, 1, 2, 3, 4, 4]])
    with torch.inference_mode():
        torch.testing.assert_close(network.hidden(ids[:, places]), network.hidden(ids)[:, places])


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_the_future_leaks_through_statistics_across_tokens_alone(norm: str):
    record = equivariance(model("decoder", norm=norm), IDS, TOKENS, "small", permutations=1)
    each, across = record.leaks
    assert (each.statistics, each.largest, each.leaks) == ("each token", 0.0, False)
    assert (across.statistics, across.leaks) == ("across tokens", True)
    assert across.largest > 0.01
    assert record.changed == 4


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_statistics_across_tokens_are_those_of_each_column(tokens: int, size: int, centred: bool):
    """PyTorch's own norms, of the transposed vectors."""
    x = torch.randn(2, tokens, size, dtype=torch.float64)
    norm = torch.nn.functional.layer_norm if centred else torch.nn.functional.rms_norm
    expected = norm(x.transpose(1, 2), (tokens,), eps=1e-5).transpose(1, 2)
    torch.testing.assert_close(across_tokens(x, 1e-5, centred=centred), expected)


def test_a_norm_across_tokens_by_hand():
    """Two tokens (1, 5) and (3, 5): over the tokens dimension 0 has mean 2 and variance 1, dimension 1 has no variance:
    (−1, 0) and (1, 0), with ε = 10⁻⁵ next to a variance of 1."""
    network = build_model(section("encoder", d_model=2, num_heads=1, positions="none", norm="layernorm"))
    one = tower(network)
    with norms_across_tokens(one):
        found = one.stack.final_norm(torch.tensor([[[1.0, 5.0], [3.0, 5.0]]]))
    torch.testing.assert_close(found, torch.tensor([[[-1.0, 0.0], [1.0, 0.0]]]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_a_model_is_as_it_was_afterwards(positions: dict[str, Any]):
    network = model("decoder", **positions)
    one, ids = tower(network), torch.tensor([IDS])
    names = [name for name, _ in network.named_parameters()]

    def fail_within() -> None:
        with altered(one, positions=False, masked=False), norms_across_tokens(one):
            assert not torch.equal(network.hidden(ids), before)
            raise RuntimeError

    with torch.no_grad():
        before = network.hidden(ids)
        with pytest.raises(RuntimeError):
            fail_within()
        assert torch.equal(network.hidden(ids), before)
    assert [name for name, _ in network.named_parameters()] == names
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_a_text_without_an_order_is_refused():
    with pytest.raises(UsageError, match="one kind of token has no order"):
        equivariance(model("encoder"), (2, 2), ("a", "a"), "small")


def test_attention_mixes_and_the_mlp_does_not():
    """Under the causal mask token 2 of 5 is seen by itself and the two after it; the MLP moves its own row alone."""
    record = perturbation(model("decoder"), IDS, TOKENS, "small", 2)
    assert [(half.layer, half.name, half.rows_alone, half.mixes) for half in record.halves] == [
        (0, "attention", 3, True),
        (0, "feed_forward", 1, False),
        (1, "attention", 3, True),
        (1, "feed_forward", 1, False),
    ]
    moved = record.moved > 0
    assert moved[:, 0].tolist() == [False, False, True, False, False]
    assert record.moved[2, 0] == pytest.approx(1), "as far as the row is long"
    assert all(moved[:, stage].tolist() == [False, False, True, True, True] for stage in range(1, 5))
    assert record.masked


def test_in_an_encoder_every_row_moves_after_the_first_attention():
    record = perturbation(model("encoder"), IDS, TOKENS, "small", 0)
    assert (record.moved[:, 1:] > 0).all()
    assert [half.rows_alone for half in record.halves] == [5, 1, 5, 1]
    assert not record.masked


def test_in_a_window_of_two_neighbours_alone_move_after_the_first_attention():
    record = perturbation(model("encoder", sliding_window=2), IDS, TOKENS, "small", 0)
    assert (record.moved[:, 1] > 0).tolist() == [True, True, False, False, False]
    assert record.window == 2


def test_the_last_token_of_a_decoder_moves_nobody_else():
    record = perturbation(model("decoder"), IDS, TOKENS, "small", 4)
    assert not (record.moved[:4] > 0).any()
    assert not any(half.mixes for half in record.halves)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("positions", ["learned", "rotary", "t5"])
def test_the_halves_one_after_the_other_are_the_model(architecture: str, positions: str):
    one, ids = tower(model(architecture, positions=positions)), torch.tensor([IDS])
    with torch.inference_mode():
        x = one.embedding(ids)
        for _, _, half in layer_halves(one, len(IDS)):
            x = half(x)
        torch.testing.assert_close(one.stack.final_norm(x)[0], one.hidden(ids))


@pytest.mark.parametrize("changed", [-1, 5])
def test_a_token_that_is_not_there_is_refused(changed: int):
    with pytest.raises(UsageError, match=f"The text has no token {changed}; choose 0 to 4"):
        perturbation(model("decoder"), IDS, TOKENS, "small", changed)


def test_two_orders_are_one_bag_of_words_without_positions():
    """the man ate the fish, the fish ate the man: only the two nouns change places."""
    first, second = (0, 1, 2, 0, 3), (0, 3, 2, 0, 1)
    network = model("encoder")
    record = order(network, (first, tuple("tmath")), (second, tuple("tfatm")), "small")
    assert record.places.tolist() == [[0, 0], [1, 4], [2, 2], [3, 3], [4, 1]]
    bare, told, masked, _ = range(4)
    assert [(v.positions, v.masked, v.own) for v in record.variants[:3]] == [
        (False, False, False),
        (True, False, True),
        (False, True, False),
    ]
    assert record.moved[:, bare].max() < 1e-9
    assert record.sentence[bare] < 1e-9
    assert record.moved[:, told].min() > 1e-4
    assert record.sentence[told] > 1e-4
    with torch.inference_mode():
        ours, theirs = (network.hidden(torch.tensor([ids]))[0] for ids in (first, second))
    sentence = (theirs.mean(0) - ours.mean(0)).norm() / ours.mean(0).norm()
    assert record.sentence[told] == pytest.approx(float(sentence), rel=1e-4)
    assert record.moved[1, told] == pytest.approx(float((theirs[4] - ours[1]).norm() / ours[1].norm()), rel=1e-4)
    assert record.moved[0, masked] == 0, "the first token sees itself alone"
    assert record.moved[1:, masked].min() > 1e-4


def test_equal_tokens_are_matched_in_their_order():
    assert matched((7, 8, 7), (7, 7, 8)).tolist() == [[0, 0], [1, 2], [2, 1]]


@pytest.mark.parametrize(("first", "second", "which"), [((1, 2, 2), (1, 2), "first"), ((1, 2), (1, 3), "first")])
def test_texts_of_other_tokens_are_refused(first: tuple[int, ...], second: tuple[int, ...], which: str):
    one, other = ((ids, tuple(map(str, ids))) for ids in (first, second))
    with pytest.raises(UsageError, match=f"The {which} text has the token '2' more often than the other"):
        order(model("encoder"), one, other, "small")
