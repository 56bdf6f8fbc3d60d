"""Windows that hold one document each: by hand, and in the batches of both objectives."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import ROLES
from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import TokenStreamView
from tfcli.data.loader import CausalBatches, MaskedBatches
from tfcli.data.windows import document_windows
from tfcli.errors import UsageError

FIRST = 5  # the first id that is no special token
lengths = st.lists(st.integers(2, 25), min_size=1, max_size=30)
Make = Callable[..., CausalBatches | MaskedBatches]


def stream(documents: list[int], shards: int = 1) -> TokenStreamView:
    """Documents of these lengths over some shards. The token at place n of the stream is 5 + n."""
    ends = np.cumsum([0, *documents])
    groups = np.array_split(np.arange(len(documents)), min(shards, len(documents)))
    parts = [(ends[group[0]], ends[group[-1] + 1], ends[[*group, group[-1] + 1]]) for group in groups]
    return TokenStreamView(
        [FIRST + np.arange(first, last, dtype=np.uint16) for first, last, _ in parts],
        [offsets - first for first, _, offsets in parts],
    )


def causal(
    documents: list[int], *, shards: int = 1, batch_size: int = 3, context: int = 8, seed: int = 0
) -> CausalBatches:
    return CausalBatches(
        stream(documents, shards), ROLES, batch_size=batch_size, context=context, seed=seed, documents=True
    )


def masked(
    documents: list[int], *, shards: int = 1, batch_size: int = 3, context: int = 8, seed: int = 0
) -> MaskedBatches:
    return MaskedBatches(
        stream(documents, shards),
        ROLES,
        batch_size=batch_size,
        context=context,
        seed=seed,
        mask_probability=0.3,
        vocab_size=FIRST + sum(documents),
        documents=True,
    )


def same(left: Batch, right: Batch) -> bool:
    return np.array_equal(left.input_ids, right.input_ids) and np.array_equal(left.labels, right.labels)


def present(batch: Batch) -> np.ndarray:
    """Where a masked batch has tokens."""
    return np.ones(batch.input_ids.shape, dtype=bool) if batch.padding_mask is None else batch.padding_mask


def originals(batch: Batch) -> list[list[int]]:
    """The places in the stream of the tokens of each row of a masked batch, with what was hidden put back."""
    tokens = np.where(batch.labels == IGNORED, batch.input_ids, batch.labels) - FIRST
    return [row[there].tolist() for row, there in zip(tokens, present(batch), strict=True)]


def predicted(batch: Batch) -> list[list[int]]:
    """The places in the stream of what each row of a causal batch predicts."""
    return [(row[row != IGNORED] - FIRST).tolist() for row in batch.labels]


def in_one_document(places: list[int], documents: list[int]) -> bool:
    """Whether places lie side by side within one document."""
    number = np.searchsorted(np.cumsum(documents), places, side="right")
    return len(set(number.tolist())) == 1 and places == list(range(places[0], places[0] + len(places)))


# Documents of 2, 4, 3 and 8 tokens, and windows of 3.
DOCUMENTS = np.array([[0, 2, 6, 9], [2, 6, 9, 17]])


def test_windows_by_hand_where_the_token_after_the_last_is_a_label() -> None:
    # 1, 3, 2 and 7 tokens have a successor in their document: shorter than a window, as long, shorter, and longer.
    starts, sizes = document_windows(DOCUMENTS, 1, 3)
    assert starts.tolist() == [0, 2, 6, 9, 12, 15]
    assert sizes.tolist() == [1, 3, 2, 3, 3, 1]


def test_windows_by_hand_where_a_token_is_its_own_label() -> None:
    # 2, 4, 3 and 8 tokens: shorter than a window, one longer, as long, and longer.
    starts, sizes = document_windows(DOCUMENTS, 0, 3)
    assert starts.tolist() == [0, 2, 5, 6, 9, 12, 15]
    assert sizes.tolist() == [2, 3, 1, 3, 3, 3, 2]


def test_a_document_of_one_token_has_nothing_to_predict() -> None:
    starts, sizes = document_windows(np.array([[0, 1, 4], [1, 4, 5]]), 1, 3)
    assert (starts.tolist(), sizes.tolist()) == ([1], [2])
    with pytest.raises(UsageError, match="No document has a token behind its first one"):
        causal([1, 1])


def test_a_plan_goes_through_its_windows_by_length() -> None:
    # Six windows of 13 tokens: three batches of 2, of 2 x 13 / 6 = 4.33 tokens on average.
    plan = causal([2, 4, 3, 8], context=3, batch_size=2)
    spans = [(span.starts.tolist(), span.lengths.tolist()) for span in plan.spans()]
    assert spans == [([0, 15], [1, 1]), ([6, 2], [2, 3]), ([9, 12], [3, 3])]
    assert [batch.padding for batch in plan.whole()] == [0, 1, 0]
    assert (plan.batches_per_epoch, plan.tokens_per_batch) == (3, 4)


def test_causal_batches_by_hand() -> None:
    # Documents 5 6 | 7 8 9 10 | 11 12 13; the window of 5 -> 6 is the shortest and comes first, padded to two.
    first, second = causal([2, 4, 3], batch_size=2).whole()
    assert first.labels.tolist() == [[6, IGNORED], [12, 13]]
    assert first.input_ids[0, 0] == 5
    assert first.input_ids[1].tolist() == [11, 12]
    assert (first.tokens, first.padding, first.target_tokens) == (3, 1, 3)
    assert (second.input_ids.tolist(), second.labels.tolist()) == ([[7, 8, 9]], [[8, 9, 10]])
    assert second.padding == 0


@given(lengths, st.integers(1, 12), st.integers(1, 5), st.integers(1, 4))
def test_every_token_but_a_document_s_first_is_predicted_once(
    documents: list[int], context: int, batch_size: int, shards: int
) -> None:
    batches = list(causal(documents, shards=shards, batch_size=batch_size, context=context).whole())
    rows = [row for batch in batches for row in predicted(batch)]
    firsts = {0, *np.cumsum(documents)[:-1].tolist()}
    assert sorted(place for row in rows for place in row) == sorted({*range(sum(documents))} - firsts)
    for batch in batches:
        scored = batch.labels != IGNORED
        assert np.array_equal(batch.input_ids[scored] + 1, batch.labels[scored])
        assert batch.tokens == batch.target_tokens == batch.labels.size - batch.padding
        # Where nothing is scored, there is padding, at the end.
        assert (np.diff(scored.astype(int), axis=1) <= 0).all()
        assert len(batch.labels) <= batch_size and batch.labels.shape[1] <= context


@given(lengths, st.integers(1, 12), st.integers(1, 5), st.integers(1, 4))
def test_every_token_is_in_one_masked_window(documents: list[int], context: int, batch_size: int, shards: int) -> None:
    batches = list(masked(documents, shards=shards, batch_size=batch_size, context=context).whole())
    rows = [row for batch in batches for row in originals(batch)]
    assert sorted(place for row in rows for place in row) == list(range(sum(documents)))
    for batch in batches:
        there = present(batch)
        assert (batch.input_ids[~there] == ROLES.pad).all()
        assert (batch.labels[~there] == IGNORED).all()
        assert (batch.padding_mask is None) == (batch.padding == 0)
        assert batch.tokens == there.sum() == batch.input_ids.size - batch.padding
        assert len(batch.labels) <= batch_size and batch.labels.shape[1] <= context


@given(lengths, st.integers(1, 12), st.integers(1, 5), st.integers(1, 4))
def test_no_window_crosses_into_another_document(
    documents: list[int], context: int, batch_size: int, shards: int
) -> None:
    settings = {"shards": shards, "batch_size": batch_size, "context": context}
    first, second = causal(documents, **settings), masked(documents, **settings)
    for batch in (*first.whole(), *islice(first.training(), 5)):
        # What a row predicts, and the token before it, that it reads first.
        assert all(in_one_document([row[0] - 1, *row], documents) for row in predicted(batch))
    for batch in (*second.whole(), *islice(second.training(), 5)):
        assert all(in_one_document(row, documents) for row in originals(batch))


@given(lengths, st.integers(1, 5), st.integers(0, 3))
def test_an_epoch_has_full_batches_and_no_window_twice(documents: list[int], batch_size: int, epoch: int) -> None:
    made = masked(documents, batch_size=batch_size)
    windows = sum(-(-length // 8) for length in documents)
    batches = list(islice(made.training(epoch * made.batches_per_epoch), made.batches_per_epoch))
    firsts = [row[0] for batch in batches for row in originals(batch)]
    assert [len(batch.labels) for batch in batches] == [batch_size] * max(1, windows // batch_size)
    assert len(set(firsts)) == min(windows, len(firsts))


@pytest.mark.parametrize("make", [causal, masked])
@given(start=st.integers(0, 40))
def test_training_from_k_is_training_without_the_first_k(make: Make, start: int) -> None:
    made = make([2 + 7 * n % 23 for n in range(17)])
    expected = islice(made.training(), start, start + 4)
    assert all(same(*both) for both in zip(expected, islice(made.training(start), 4), strict=True))


@pytest.mark.parametrize("make", [causal, masked])
def test_epochs_have_another_order_and_the_seed_decides_it(make: Make) -> None:
    documents = [2 + 7 * n % 23 for n in range(60)]
    made, again, other = make(documents, seed=1), make(documents, seed=1), make(documents, seed=2)
    first = next(made.training())
    assert same(first, next(again.training()))
    assert not same(first, next(other.training()))
    assert not same(first, next(made.training(made.batches_per_epoch)))


@given(lengths, st.integers(1, 9), st.integers(1, 9))
def test_masks_of_whole_depend_on_neither_seed_nor_batch_size(documents: list[int], one: int, other: int) -> None:
    results = [masked(documents, batch_size=size, seed=size).whole() for size in (one, other)]
    left, right = (
        [
            (inputs[there].tolist(), labels[there].tolist())
            for batch in result
            for inputs, labels, there in zip(batch.input_ids, batch.labels, present(batch), strict=True)
        ]
        for result in results
    )
    assert left == right


@pytest.mark.parametrize(("make", "tokens"), [(causal, 13), (masked, 17)])
def test_tokens_of_a_batch_are_counted_without_padding(make: Make, tokens: int) -> None:
    # Documents of 2, 4, 3 and 8 tokens are four windows: one batch has them all.
    made = make([2, 4, 3, 8], batch_size=4)
    assert made.tokens_per_batch == next(made.training()).tokens == tokens


def test_the_begin_token_of_the_next_document_is_not_read_as_a_label() -> None:
    # <s> a </s> | <s> </s>: three labels, whether or not one token both begins and ends a document.
    tokens = np.array([ROLES.bos, 7, ROLES.eos, ROLES.bos, ROLES.eos], dtype=np.uint16)
    view = TokenStreamView([tokens], [np.array([0, 3, 5])])
    for roles in (ROLES, replace(ROLES, bos=9)):
        (batch,) = CausalBatches(view, roles, batch_size=2, context=4, seed=0, documents=True).whole()
        assert batch.labels.tolist() == [[ROLES.eos, IGNORED], [7, ROLES.eos]]
