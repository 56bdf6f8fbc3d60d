"""Batches of pairs: teacher forcing, padding, buckets of length."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import ROLES
from tfcli.data.batch import IGNORED, Batch, BucketPlan
from tfcli.data.dataset import PairsView, SequencesView
from tfcli.data.loader import PairBatches
from tfcli.errors import UsageError

BOS, EOS, PAD = ROLES.bos, ROLES.eos, ROLES.pad
lengths = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40)


def side(sequences: list[list[int]], shards: int = 1) -> SequencesView:
    made = []
    for group in np.array_split(np.arange(len(sequences)), min(shards, len(sequences))):
        chosen = [sequences[index] for index in group]
        tokens = np.array([token for sequence in chosen for token in sequence], dtype=np.uint16)
        made.append((tokens, np.cumsum([0] + [len(sequence) for sequence in chosen])))
    return SequencesView(made)


def view(pairs: list[tuple[list[int], list[int]]], shards: int = 1) -> PairsView:
    return PairsView(
        side([[*source, EOS] for source, _ in pairs], shards),
        side([[BOS, *target, EOS] for _, target in pairs], shards),
    )


def numbered(sizes: list[tuple[int, int]], shards: int = 1) -> PairsView:
    """Pairs of these lengths; pair number n is made of the token 10 + n."""
    return view([([10 + n] * source, [10 + n] * target) for n, (source, target) in enumerate(sizes)], shards)


def batches(pairs: PairsView, *, batch_size: int = 2, context: int = 10, seed: int = 0) -> PairBatches:
    return PairBatches(pairs, ROLES, batch_size=batch_size, context=context, seed=seed)


def same(left: Batch, right: Batch) -> bool:
    return np.array_equal(left.input_ids, right.input_ids) and np.array_equal(left.labels, right.labels)


def seen(batch: Batch) -> list[int]:
    """The numbers of the pairs of a batch, told by the last label before </s>; -1 for an empty target."""
    ends = (batch.labels == EOS).argmax(axis=1)
    return [int(row[end - 1]) - 10 if end else -1 for row, end in zip(batch.labels, ends, strict=True)]


def test_teacher_forcing_and_padding() -> None:
    # Sorted by target: the second pair comes first. Its decoder input "<s> 9" is padded like "<s> 7 8".
    batch = next(batches(view([([5], [7, 8]), ([5, 6], [9])])).whole())
    assert batch.input_ids.tolist() == [[5, 6, EOS], [5, EOS, PAD]]
    assert batch.padding_mask is not None and batch.decoder_input_ids is not None
    assert batch.padding_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.decoder_input_ids.tolist() == [[BOS, 9, PAD], [BOS, 7, 8]]
    assert batch.labels.tolist() == [[9, EOS, IGNORED], [7, 8, EOS]]
    assert batch.target_tokens == 5
    assert batch.input_ids.dtype == batch.labels.dtype == batch.decoder_input_ids.dtype == np.int64


def test_two_tokens_before_a_target() -> None:
    """As BART has them: "</s> <s> 7 8 </s>" is read but for its end, and predicted but for its first token."""
    pairs = PairsView(side([[BOS, 5, EOS]]), side([[EOS, BOS, 7, 8, EOS]]))
    batch = next(batches(pairs).whole())
    assert batch.decoder_input_ids is not None
    assert batch.input_ids.tolist() == [[BOS, 5, EOS]]
    assert batch.decoder_input_ids.tolist() == [[EOS, BOS, 7, 8]]
    assert batch.labels.tolist() == [[BOS, 7, 8, EOS]]


def test_targets_that_begin_with_padding() -> None:
    """As T5 has them: the first token is read, and later ones of the same id are none."""
    pairs = PairsView(side([[5, EOS], [6, EOS]]), side([[PAD, 7, EOS], [PAD, 7, 8, EOS]]))
    batch = next(batches(pairs).whole())
    assert batch.decoder_input_ids is not None
    assert batch.decoder_input_ids.tolist() == [[PAD, 7, PAD], [PAD, 7, 8]]
    assert batch.labels.tolist() == [[7, EOS, IGNORED], [7, 8, EOS]]


@given(lengths, st.integers(1, 6), st.integers(1, 3))
def test_whole_has_every_pair_once_and_order_leads_back(
    sizes: list[tuple[int, int]], batch_size: int, shards: int
) -> None:
    sizes = [(source, target + 1) for source, target in sizes]
    made = batches(numbered(sizes, shards), batch_size=batch_size, context=20)
    result = list(made.whole())
    assert [number for batch in result for number in seen(batch)] == made.order.tolist()
    assert sorted(made.order.tolist()) == list(range(len(sizes)))
    assert sum(batch.target_tokens for batch in result) == sum(target + 1 for _, target in sizes)
    assert all(batch.padding_mask is not None and batch.padding_mask[:, 0].all() for batch in result)
    assert [sizes[number][1] for number in made.order] == sorted(target for _, target in sizes)


@given(lengths, st.integers(1, 6), st.integers(0, 9))
def test_an_epoch_has_no_pair_twice(sizes: list[tuple[int, int]], batch_size: int, epoch: int) -> None:
    sizes = [(source, target + 1) for source, target in sizes]
    made = batches(numbered(sizes), batch_size=batch_size, context=20)
    result = list(islice(made.training(epoch * made.batches_per_epoch), made.batches_per_epoch))
    numbers = [number for batch in result for number in seen(batch)]
    assert all(len(batch.labels) == batch_size for batch in result)
    if len(sizes) >= batch_size:
        assert len(set(numbers)) == len(numbers) == len(sizes) // batch_size * batch_size
    else:
        assert set(numbers) == set(range(len(sizes)))


@given(st.integers(0, 30))
def test_training_from_k_is_training_without_the_first_k(start: int) -> None:
    made = batches(numbered([(n % 5, 1 + n % 7) for n in range(23)]), batch_size=4)
    expected = islice(made.training(), start, start + 5)
    assert all(same(*both) for both in zip(expected, islice(made.training(start), 5), strict=True))


def test_pairs_that_are_too_long_are_left_out_and_counted() -> None:
    # Context 3 holds a source "x x </s>" and a decoder input "<s> y y"; pairs 1 and 3 have one token more.
    made = batches(numbered([(2, 2), (3, 1), (1, 1), (1, 3)]), context=3)
    assert made.left_out == 2
    assert made.order.tolist() == [2, 0]
    assert {number for batch in islice(made.training(), 4) for number in seen(batch)} == {0, 2}
    with pytest.raises(UsageError, match=r"longer than the context of 1 tokens \(the shortest has 2\); raise"):
        batches(numbered([(2, 2), (1, 1)]), context=1)


def test_batches_hold_pairs_of_about_the_same_length_in_mixed_order() -> None:
    targets = np.random.default_rng(0).integers(1, 50, size=6400)
    plan = BucketPlan(np.arange(6400), np.stack([targets, targets]), batch_size=32, seed=0)
    epoch = targets[plan.epoch(0)]
    # 64 batches share a pool: each spans about 1/64 of the 49 lengths, where chance would span nearly all.
    assert np.mean(epoch.max(axis=1) - epoch.min(axis=1)) < 2
    assert abs(np.corrcoef(np.arange(200), epoch.mean(axis=1))[0, 1]) < 0.25
    assert not np.array_equal(plan.epoch(0), plan.epoch(1))


def test_every_epoch_composes_its_batches_anew() -> None:
    # 1,000 batches of distinct lengths in pools of 64: sorted all together, every epoch would be alike.
    lengths = np.arange(4000)
    plan = BucketPlan(lengths, np.stack([lengths, lengths]), batch_size=4, seed=0)
    first, second = ({tuple(batch) for batch in plan.epoch(epoch).tolist()} for epoch in (0, 1))
    assert len(first) == 1000 and not first & second


def test_pairs_that_do_not_fill_a_batch_are_left_out_by_chance() -> None:
    # 5 pairs, batches of 2: in 200 epochs the one left out is each of them, about 40 times (deviation 5.7).
    plan = BucketPlan(np.arange(5), np.array([[1, 2, 3, 4, 5]] * 2), batch_size=2, seed=0)
    missing = [(set(range(5)) - set(plan.epoch(epoch).ravel().tolist())).pop() for epoch in range(200)]
    assert np.bincount(missing).min() > 15


def test_tokens_of_both_sides_are_counted_without_padding() -> None:
    # Sources "x </s>" have 2 tokens each; targets "<s> y" and "<s> y y y" have 2 and 4: 10 in a batch of both.
    made = batches(numbered([(1, 1), (1, 3)]))
    assert made.tokens_per_batch == 10
    assert next(made.whole()).tokens == 10
