"""Prompts with their answers, of which the answers are scored; and prefixes, which are not."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from tests.support.fakes import ROLES
from tfcli.data.batch import IGNORED
from tfcli.data.dataset import PairsView, SequencesView, TokenStreamView
from tfcli.data.loader import CompletionBatches, PrefixBatches
from tfcli.errors import UsageError
from tfcli.records.roles import TokenRoles


def side(sequences: list[list[int]]) -> SequencesView:
    tokens = np.array([token for sequence in sequences for token in sequence], dtype=np.uint16)
    return SequencesView([(tokens, np.cumsum([0, *map(len, sequences)]))])


def completions(
    pairs: list[tuple[list[int], list[int]]], roles: TokenRoles = ROLES, **settings: int
) -> CompletionBatches:
    end = list(roles.end)
    sources = side([roles.source(prompt) for prompt, _ in pairs])
    targets = side([[*roles.target_prefix, *answer, *end] for _, answer in pairs])
    return CompletionBatches(
        PairsView(sources, targets), roles, **{"batch_size": 2, "context": 16, "seed": 0} | settings
    )


def test_a_decoder_reads_both_and_the_answer_is_scored() -> None:
    # <s> 10 11 20 </s> and <s> 12 21 22 </s>: the last token of the prompt predicts the answer's first one.
    made = completions([([10, 11], [20]), ([12], [21, 22])])
    [batch] = made.whole()
    assert batch.input_ids.tolist() == [[1, 10, 11, 20], [1, 12, 21, 22]]
    assert batch.labels.tolist() == [[IGNORED, IGNORED, 20, 2], [IGNORED, 21, 22, 2]]
    assert made.order.tolist() == [0, 1]
    assert (made.longest, made.left_out) == (4, 0)


def test_padding_is_not_scored() -> None:
    [batch] = completions([([10], [20]), ([12, 13, 14], [21])]).whole()
    assert batch.input_ids.tolist() == [[1, 10, 20, 0, 0], [1, 12, 13, 14, 21]]
    assert batch.labels.tolist() == [[IGNORED, 20, 2, IGNORED, IGNORED], [IGNORED, IGNORED, IGNORED, 21, 2]]
    assert (batch.tokens, batch.target_tokens) == (8, 4)


def test_the_frame_of_pairs_is_not_that_of_a_text() -> None:
    # Sources that begin with 6, targets with 7 8, texts with nothing: none of them is read.
    roles = replace(ROLES, source_start=(6,), target_start=(7, 8), text_start=())
    [batch] = completions([([10, 11], [20, 21])], roles, batch_size=1).whole()
    assert batch.input_ids.tolist() == [[10, 11, 20, 21]]
    assert batch.labels.tolist() == [[IGNORED, 20, 21, 2]]


def test_without_a_prompt_and_a_beginning_the_first_token_cannot_be_scored() -> None:
    [batch] = completions([([], [20, 21])], replace(ROLES, text_start=()), batch_size=1).whole()
    assert (batch.input_ids.tolist(), batch.labels.tolist()) == ([[20, 21]], [[21, 2]])


def test_what_is_longer_than_the_context_is_left_out() -> None:
    made = completions([([10] * 20, [20]), ([10], [20])])
    assert made.left_out == 1
    assert [batch.input_ids.shape for batch in made.whole()] == [(1, 3)]
    with pytest.raises(UsageError, match=r"longer than the context of 16 tokens \(the shortest has 22\)"):
        completions([([10] * 20, [20])])


def test_the_stream_of_batches_follows_from_seed_and_number() -> None:
    pairs = [([10] * (n % 7 + 1), [20, 5 + n]) for n in range(40)]
    made = completions(pairs, batch_size=4)
    first, again = list(islice(made.training(), 25)), list(islice(made.training(13), 12))
    for ours, theirs in zip(first[13:], again, strict=True):
        assert np.array_equal(ours.labels, theirs.labels)
    epoch = np.concatenate([batch.labels[batch.labels >= 5] for batch in first[: made.batches_per_epoch]])
    assert len(epoch) == 80


def prefixes(tokens: int, context: int = 8, batch_size: int = 4) -> PrefixBatches:
    stream = np.arange(tokens, dtype=np.uint16) + 5
    return PrefixBatches(TokenStreamView([stream]), ROLES, batch_size=batch_size, context=context, seed=0)


def test_what_follows_a_prefix_is_scored() -> None:
    for batch in islice(prefixes(100).training(), 20):
        assert batch.prefix is not None
        for inputs, labels, prefix in zip(batch.input_ids, batch.labels, batch.prefix.tolist(), strict=True):
            assert (labels[: prefix - 1] == IGNORED).all()
            assert np.array_equal(labels[prefix - 1 :], inputs[prefix - 1 :] + 1)


def test_prefixes_of_all_lengths_are_as_likely() -> None:
    counts = np.zeros(8)
    for batch in islice(prefixes(8001, batch_size=50).training(), 160):
        assert batch.prefix is not None
        counts += np.bincount(batch.prefix, minlength=9)[1:]
    expected = counts.sum() / 8
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 7 + 4 * 14**0.5
    # A window has 8 − p + 1 labels: 4.5 on average.
    assert abs((counts * np.arange(8, 0, -1)).sum() / counts.sum() - 4.5) < 0.15


def test_whole_draws_the_same_prefixes_for_every_batch_size() -> None:
    found = [
        np.concatenate([batch.prefix for batch in prefixes(100, batch_size=size).whole() if batch.prefix is not None])
        for size in (3, 5)
    ]
    assert np.array_equal(*found)
