"""Causal batches: every token is predicted once, from the one before it."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import ROLES
from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import TokenStreamView
from tfcli.data.loader import CausalBatches, are_news
from tfcli.records.roles import TokenRoles

# One token both ends and begins a document, so that every token is a label.
ONE_BOUNDARY = replace(ROLES, bos=ROLES.eos)


def counting(tokens: int, shards: tuple[int, ...] = ()) -> TokenStreamView:
    """The stream 0, 1, 2 …, cut into shards at these places: a token is its own place."""
    return TokenStreamView(np.split(np.arange(tokens, dtype=np.uint16), shards))


def batches(tokens: int, batch_size: int, context: int, seed: int = 0) -> CausalBatches:
    return CausalBatches(counting(tokens), ONE_BOUNDARY, batch_size=batch_size, context=context, seed=seed)


def same(left: Batch, right: Batch) -> bool:
    return np.array_equal(left.input_ids, right.input_ids) and np.array_equal(left.labels, right.labels)


@pytest.mark.parametrize(
    ("roles", "stream", "news"),
    [
        (TokenRoles(pad=0, bos=1, eos=2), [1, 5, 2, 1, 6], [True, True, False, True]),
        (TokenRoles(pad=0, bos=2, eos=2, text_start=(2,)), [2, 5, 2, 2, 6], [True, True, False, True]),
        # Nothing ends a text: what begins it is no news, and a letter that stands twice is.
        (TokenRoles(pad=1, bos=1, eos=1, text_start=(1,), endless=True), [1, 5, 1, 6, 6], [True, False, True, True]),
        (TokenRoles(pad=0, bos=0, eos=0, text_start=(), endless=True), [0, 0, 5, 0, 0], [True] * 4),
    ],
    ids=["begun and ended", "one boundary", "begun alone", "neither"],
)
def test_what_begins_a_text_is_no_news(roles: TokenRoles, stream: list[int], news: list[bool]) -> None:
    assert are_news(np.array(stream), roles).tolist() == news


def test_whole_walks_the_stream_in_order() -> None:
    # 9 tokens have 8 successors: two windows of 3, and one of 2 that is a batch of its own.
    result = list(batches(tokens=9, batch_size=4, context=3).whole())
    assert [batch.input_ids.tolist() for batch in result] == [[[0, 1, 2], [3, 4, 5]], [[6, 7]]]
    assert [batch.labels.tolist() for batch in result] == [[[1, 2, 3], [4, 5, 6]], [[7, 8]]]
    assert [batch.target_tokens for batch in result] == [6, 2]


def test_whole_does_not_make_batches_larger_than_asked() -> None:
    shapes = [batch.labels.shape for batch in batches(tokens=16, batch_size=2, context=3).whole()]
    assert shapes == [(2, 3), (2, 3), (1, 3)]


@given(st.integers(2, 80), st.integers(1, 5), st.integers(1, 12))
def test_whole_scores_every_token_but_the_first_once(tokens: int, batch_size: int, context: int) -> None:
    result = list(batches(tokens, batch_size, context).whole())
    labels = np.concatenate([batch.labels.ravel() for batch in result])
    assert labels.tolist() == list(range(1, tokens))
    assert all(np.array_equal(batch.labels, batch.input_ids + 1) for batch in result)


@given(st.integers(2, 80), st.integers(1, 5), st.integers(1, 12), st.integers(0, 3))
def test_training_batches_are_full_and_shifted_by_one(tokens: int, batch_size: int, context: int, seed: int) -> None:
    made = batches(tokens, batch_size, context, seed)
    for batch in islice(made.training(), 2 * made.batches_per_epoch + 1):
        # A stream of fewer than context + 1 tokens is one shorter window.
        assert batch.labels.shape == batch.input_ids.shape == (batch_size, min(context, tokens - 1))
        assert np.array_equal(batch.labels, batch.input_ids + 1)
        assert np.array_equal(np.diff(batch.input_ids, axis=1), np.ones_like(batch.input_ids[:, 1:]))
        assert batch.target_tokens == made.tokens_per_batch
        assert batch.labels.max() < tokens


@given(st.integers(24, 80), st.integers(1, 12), st.integers(0, 50))
def test_an_epoch_permutes_windows_that_lie_side_by_side(tokens: int, context: int, epoch: int) -> None:
    made = batches(tokens, batch_size=1, context=context)
    start = epoch * made.batches_per_epoch
    firsts = [int(batch.input_ids[0, 0]) for batch in islice(made.training(start), made.batches_per_epoch)]
    phase = min(firsts)
    assert phase < context
    assert sorted(firsts) == [phase + context * index for index in range(len(firsts))]
    # What is left over on both ends is less than two windows.
    assert tokens - 1 - context * len(firsts) < 2 * context


def test_epochs_differ_in_phase_and_order() -> None:
    made = batches(tokens=200, batch_size=1, context=10)
    epochs = [
        [int(batch.input_ids[0, 0]) for batch in islice(made.training(epoch * made.batches_per_epoch), 18)]
        for epoch in range(20)
    ]
    assert len({min(firsts) for firsts in epochs}) > 5
    assert len({tuple(first // 10 for first in firsts) for firsts in epochs}) == 20


@given(st.integers(0, 40), st.integers(1, 4))
def test_training_from_k_is_training_without_the_first_k(start: int, batch_size: int) -> None:
    made = batches(tokens=50, batch_size=batch_size, context=4)
    expected = islice(made.training(), start, start + 5)
    assert all(same(*both) for both in zip(expected, islice(made.training(start), 5), strict=True))


def test_the_seed_decides_the_order() -> None:
    first, again, other = (next(batches(500, 4, 8, seed).training()) for seed in (1, 1, 2))
    assert same(first, again) and not same(first, other)


def test_a_part_with_few_windows_repeats_them_in_a_batch() -> None:
    # 5 tokens, context 4: one window, three times in a batch.
    batch = next(batches(tokens=5, batch_size=3, context=4).training())
    assert batch.input_ids.tolist() == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize("shards", [(), (10,), (3, 4, 29), (7, 14, 21)])
def test_shards_make_no_difference(shards: tuple[int, ...]) -> None:
    made = CausalBatches(counting(30, shards), ROLES, batch_size=2, context=9, seed=3)
    plain = CausalBatches(counting(30), ROLES, batch_size=2, context=9, seed=3)
    for left, right in zip(made.whole(), plain.whole(), strict=True):
        assert same(left, right)
    assert all(same(*both) for both in zip(islice(made.training(), 7), islice(plain.training(), 7), strict=True))


def test_arrays_are_ready_for_tensors() -> None:
    made = batches(tokens=50, batch_size=2, context=4)
    batch = next(made.training())
    assert batch.input_ids.dtype == batch.labels.dtype == np.int64
    assert batch.input_ids.flags.c_contiguous and batch.labels.flags.c_contiguous
    assert batch.padding_mask is None and batch.decoder_input_ids is None


@pytest.mark.parametrize(
    ("start", "stream", "labels"),
    [
        ((), [7, 8, 2, 2, 9, 2], [8, 2, IGNORED, 9, 2]),
        ((2,), [2, 7, 8, 2, 2, 9, 2], [7, 8, 2, IGNORED, 9, 2]),
        ((3, 1), [3, 1, 7, 2, 3, 1, 2], [IGNORED, 7, 2, IGNORED, IGNORED, 2]),
        (None, [2, 7, 2, 2, 9, 2], [7, 2, 2, 9, 2]),
    ],
    ids=["nothing in front", "begin = end", "two tokens in front", "begin = end by the old rule"],
)
def test_what_stands_between_documents_is_no_news_behind_an_end(
    start: tuple[int, ...] | None, stream: list[int], labels: list[int]
) -> None:
    """The word behind an end is: the text of another document. An empty document leaves two ends side by side."""
    roles = replace(ROLES, bos=ROLES.eos, text_start=start)
    (batch,) = CausalBatches(TokenStreamView([np.array(stream)]), roles, batch_size=1, context=9, seed=0).whole()
    assert batch.labels.tolist() == [labels]


def test_the_begin_token_is_read_but_never_predicted() -> None:
    # <s> a b </s> <s> c </s>: what follows </s> is always <s>, and saying so is no merit.
    bos, eos = ROLES.bos, ROLES.eos
    view = TokenStreamView([np.array([bos, 7, 8, eos, bos, 9, eos])])
    (batch,) = CausalBatches(view, ROLES, batch_size=1, context=6, seed=0).whole()
    assert batch.input_ids.tolist() == [[bos, 7, 8, eos, bos, 9]]
    assert batch.labels.tolist() == [[7, 8, eos, IGNORED, 9, eos]]
    assert batch.target_tokens == 5
