"""Batches of a number of tokens: by hand, and against what they promise for any lengths."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.data.test_documents import masked, originals, predicted
from tests.data.test_documents import stream as documents_stream
from tests.data.test_pairs import numbered, seen, view
from tests.support.fakes import ROLES
from tfcli.data.batch import POOL_BATCHES, POOLS, BudgetPlan, _cut
from tfcli.data.dataset import TokenStreamView
from tfcli.data.loader import CausalBatches, MaskedBatches, PairBatches
from tfcli.errors import UsageError

SIZE = st.integers(1, 12)
PAIRS = st.lists(st.tuples(SIZE, SIZE), min_size=1, max_size=150)
SINGLES = st.lists(st.tuples(SIZE), min_size=1, max_size=150)
ROOM = st.integers(0, 60)


def plan(sizes: list[tuple[int, ...]], room: int = 0, seed: int = 0) -> BudgetPlan:
    """A plan whose budget is `room` more than the largest size."""
    lengths = np.array(sizes).T
    return BudgetPlan(np.arange(len(sizes)), lengths, budget=largest(sizes) + room, seed=seed)


def largest(sizes: list[tuple[int, ...]]) -> int:
    return max(sum(size) for size in sizes)


def places(sizes: list[tuple[int, ...]], batch: NDArray[np.int64]) -> int:
    """Rows times the longest of each side, by the definition."""
    return len(batch) * sum(max(sizes[number][side] for number in batch) for side in range(len(sizes[0])))


@given(PAIRS | SINGLES, ROOM, st.integers(0, 5))
def test_an_epoch_has_every_sequence_once_within_the_budget(
    sizes: list[tuple[int, ...]], room: int, epoch: int
) -> None:
    made = plan(sizes, room)
    for batches in (made.epoch(epoch), list(made.whole())):
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
        assert max(places(sizes, batch) for batch in batches) <= largest(sizes) + room
        assert len(batches) == made.batches_per_epoch
        assert min(len(batch) for batch in batches) > 0
    assert made.tokens_per_batch == round(sum(map(sum, sizes)) / made.batches_per_epoch)


@given(PAIRS | SINGLES, ROOM)
def test_the_plan_follows_from_seed_and_epoch_alone(sizes: list[tuple[int, ...]], room: int) -> None:
    one, other = plan(sizes, room), plan(sizes, room)
    one.epoch(0)
    for left, right in zip(one.epoch(3), other.epoch(3), strict=True):
        assert np.array_equal(left, right)


def test_the_seed_and_the_epoch_change_who_shares_a_batch() -> None:
    # A million tokens in batches of about 4,500: some 230 batches, four a pool.
    sizes = [(100 + n % 400,) for n in range(4000)]
    plans = [plan(sizes, 4000, seed=1).epoch(0), plan(sizes, 4000, seed=1).epoch(1), plan(sizes, 4000, seed=2).epoch(0)]
    first, second, third = ({frozenset(batch.tolist()) for batch in batches} for batches in plans)
    assert len(first) > 200
    assert not first & second and not first & third


def test_equal_lengths_change_their_batch_where_a_pool_is_one_batch() -> None:
    # Ten batches of ten: nothing but the order among equal lengths is left to chance.
    made = plan([(5,)] * 100, 45)
    first, second = ({frozenset(batch.tolist()) for batch in made.epoch(epoch)} for epoch in (0, 1))
    assert len(first) == 10 and not first & second


def test_batches_come_in_mixed_order() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, size=6400)
    batches = plan([(int(length),) for length in lengths], 1000).epoch(0)
    means = [lengths[batch].mean() for batch in batches]
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.25


def test_cuts_by_hand() -> None:
    # 16 tokens and a budget of 6: a batch a pool. 1 1 1 1 are 4 places, and with a 2 they would be 5 x 2.
    pools, cuts = _cut(np.array([[1, 1, 1, 1, 2, 2, 2, 5]]), 6)
    assert (pools, cuts.tolist()) == ([4, 7], [4, 7])
    # Two sides: (1, 3) and (3, 1) together are 2 rows of 3 + 3 places, more than 8; so are they alone.
    pools, cuts = _cut(np.array([[1, 3], [3, 1]]), 8)
    assert (pools, cuts.tolist()) == ([1], [1])


def test_a_pool_holds_full_batches_of_any_of_its_sequences() -> None:
    # 1000 tokens in batches of 5 are 200 batches, three a pool; rows of 1 token: five a batch, fifteen a pool.
    pools, cuts = _cut(np.ones((1, 1000), dtype=np.int64), 5)
    assert pools == list(range(15, 1000, 15))
    assert cuts.tolist() == list(range(5, 1000, 5))


def test_pools_of_a_large_part_have_no_more_batches_than_chance_needs() -> None:
    pools, cuts = _cut(np.ones((1, 20_000), dtype=np.int64), 2)
    assert len(cuts) + 1 == 10_000
    assert pools[0] == 2 * POOL_BATCHES


@given(st.integers(1, 200), SIZE, SIZE, st.integers(1, 9))
def test_equal_lengths_are_not_padded_and_fill_their_batches(count: int, source: int, target: int, rows: int) -> None:
    made = plan([(source, target)] * count, (rows - 1) * (source + target))
    sizes = [len(batch) for batch in made.epoch(0)]
    assert len(sizes) == -(-count // rows)
    assert max(sizes) <= rows


def test_one_huge_sequence_is_alone_and_the_rest_is_not_padded_to_it() -> None:
    sizes = [(2,)] * 999 + [(500,)]
    batches = plan(sizes).epoch(0)
    assert sorted(len(batch) for batch in batches) == [1, 249, 250, 250, 250]
    assert sum(places(sizes, batch) for batch in batches) == 999 * 2 + 500


def test_a_single_sequence_is_a_batch() -> None:
    made = plan([(3, 4)])
    assert [batch.tolist() for batch in made.epoch(7)] == [[0]]
    assert made.batches_per_epoch == 1


def in_order(sizes: list[tuple[int, ...]], order: list[int], budget: int) -> int:
    """Places of batches that are filled up to the budget as the sequences come."""
    total, batch = 0, [order[0]]
    for number in order[1:]:
        if places(sizes, np.array([*batch, number])) > budget:
            total, batch = total + places(sizes, np.array(batch)), []
        batch.append(number)
    return total + places(sizes, np.array(batch))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99), st.floats(0.5, 8), st.floats(0, 0.9), st.integers(10, 50))
def test_padding_is_a_fraction_of_that_of_random_batches(seed: int, shape: float, noise: float, rows: int) -> None:
    """Correlated sides with a long tail, as sentences and their translations have."""
    draw = np.random.default_rng(seed)
    sources = 2 + draw.gamma(shape, 20 / shape, size=3000).astype(int)
    targets = 2 + (sources * draw.uniform(1 - noise, 1 + noise, size=3000)).astype(int)
    sizes = list(zip(sources.tolist(), targets.tolist(), strict=True))
    tokens = int((sources + targets).sum())
    budget = largest(sizes) + rows * tokens // 3000
    made = BudgetPlan(np.arange(3000), np.stack([sources, targets]), budget=budget, seed=seed)
    planned = sum(places(sizes, batch) for batch in made.epoch(0))
    chance = in_order(sizes, draw.permutation(3000).tolist(), budget)
    assert planned - tokens < (chance - tokens) / 3


@given(SINGLES, ROOM)
def test_padding_is_within_what_can_be_derived(sizes: list[tuple[int]], room: int) -> None:
    """A batch of n rows has at most n (longest - shortest) places without a token, and n longest <= budget; so all have
    at most budget x the sum of 1 - shortest / longest <= budget x ln(longest / shortest of all), one batch a pool."""
    budget, (lengths,) = largest(sizes) + room, zip(*sizes, strict=True)
    padding = sum(places(sizes, batch) for batch in plan(sizes, room).epoch(0)) - sum(lengths)
    batches = max(1, round(sum(lengths) / budget / POOLS))
    assert padding <= batches * budget * np.log(max(lengths) / min(lengths))


def test_a_sequence_larger_than_the_budget_is_refused() -> None:
    text = (
        r"train.batch_tokens = 9 cannot hold the longest example of 10 tokens \(sides of 4 and 6\); raise .* to 10 or"
    )
    with pytest.raises(UsageError, match=text):
        BudgetPlan(np.arange(3), np.array([[1, 4, 2], [6, 6, 7]]), budget=9, seed=0)
    with pytest.raises(UsageError, match=r"longest example of 5 tokens; raise"):
        BudgetPlan(np.arange(2), np.array([[5, 1]]), budget=4, seed=0)


def test_batches_of_pairs_hold_at_most_so_many_places() -> None:
    pairs = numbered([(n % 7, 1 + n % 9) for n in range(60)])
    made = PairBatches(pairs, ROLES, batch_size=1, batch_tokens=40, context=9, seed=0)
    epoch = list(islice(made.training(), made.batches_per_epoch))
    assert made.left_out == len(range(8, 60, 9))  # targets of 9 are decoder inputs of 10
    assert sorted(number for batch in epoch for number in seen(batch)) == sorted(made.order.tolist())
    assert max(batch.places for batch in epoch) <= 40
    assert sum(batch.tokens for batch in epoch) == pytest.approx(made.tokens_per_batch * len(epoch), abs=len(epoch))
    assert [number for batch in made.whole() for number in seen(batch)] == made.order.tolist()


def test_the_largest_pair_just_fits() -> None:
    # "5 </s>" and "<s> 7 8 </s>", which is read but for its end: 2 + 3 places.
    pairs = view([([5], [7, 8])])
    assert next(PairBatches(pairs, ROLES, batch_size=1, batch_tokens=5, context=9, seed=0).training()).places == 5
    with pytest.raises(UsageError, match="batch_tokens = 4 cannot hold the longest example of 5 tokens"):
        PairBatches(pairs, ROLES, batch_size=1, batch_tokens=4, context=9, seed=0)


@pytest.mark.parametrize("kind", ["pairs", "causal", "masked", "stream"])
@given(start=st.integers(0, 60))
def test_training_from_k_is_training_without_the_first_k(kind: str, start: int) -> None:
    lengths = [2 + 7 * n % 23 for n in range(40)]
    made: PairBatches | CausalBatches | MaskedBatches
    if kind == "pairs":
        made = PairBatches(
            numbered([(n % 5, 1 + n % 7) for n in range(50)]), ROLES, batch_size=1, batch_tokens=30, context=20, seed=3
        )
    elif kind == "masked":
        made = MaskedBatches(
            documents_stream(lengths),
            ROLES,
            batch_size=1,
            batch_tokens=24,
            context=8,
            seed=3,
            mask_probability=0.3,
            vocab_size=5 + sum(lengths),
            documents=True,
        )
    else:
        made = CausalBatches(
            documents_stream(lengths),
            ROLES,
            batch_size=1,
            batch_tokens=24,
            context=8,
            seed=3,
            documents=kind == "causal",
        )
    expected = islice(made.training(), start, start + 4)
    for left, right in zip(expected, islice(made.training(start), 4), strict=True):
        assert np.array_equal(left.input_ids, right.input_ids) and np.array_equal(left.labels, right.labels)


@given(st.lists(st.integers(2, 25), min_size=1, max_size=30), st.integers(0, 30))
def test_documents_are_all_read_within_the_budget(documents: list[int], room: int) -> None:
    made = CausalBatches(
        documents_stream(documents), ROLES, batch_size=1, batch_tokens=8 + room, context=8, seed=0, documents=True
    )
    epoch = list(islice(made.training(), made.batches_per_epoch))
    firsts = {0, *np.cumsum(documents)[:-1].tolist()}
    read = sorted(place for batch in epoch for row in predicted(batch) for place in row)
    assert read == sorted({*range(sum(documents))} - firsts)
    assert max(batch.places for batch in epoch) <= 8 + room


@given(st.lists(st.integers(2, 25), min_size=1, max_size=30), st.integers(1, 9), st.integers(0, 90))
def test_masks_of_whole_do_not_depend_on_the_budget(documents: list[int], batch_size: int, room: int) -> None:
    by_size = masked(documents, batch_size=batch_size)
    by_tokens = MaskedBatches(
        documents_stream(documents),
        ROLES,
        batch_size=1,
        batch_tokens=8 + room,
        context=8,
        seed=1,
        mask_probability=0.3,
        vocab_size=5 + sum(documents),
        documents=True,
    )
    for rows in (originals, predicted):
        left, right = ([row for batch in made.whole() for row in rows(batch)] for made in (by_size, by_tokens))
        assert left == right


def test_a_stream_has_as_many_windows_a_batch_as_fit() -> None:
    view = TokenStreamView([np.arange(200, dtype=np.uint16)])
    made = CausalBatches(view, ROLES, batch_size=1, batch_tokens=39, context=10, seed=0)
    assert next(made.training()).labels.shape == (3, 10)
    assert made.batches_per_epoch == 6  # 19 windows fit after the largest phase of 9
    assert made.tokens_per_batch == 30
