"""Masked batches: which tokens are hidden, and behind what."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import ROLES
from tfcli.data.batch import IGNORED, generator
from tfcli.data.dataset import TokenStreamView
from tfcli.data.loader import MaskedBatches, Masker
from tfcli.errors import UsageError
from tfcli.records.roles import TokenRoles

SPECIAL = [0, 1, 2, 3, 4]
VOCAB = 100


def batches(stream: np.ndarray, *, batch_size: int = 4, context: int = 8, seed: int = 0) -> MaskedBatches:
    return MaskedBatches(
        TokenStreamView([stream]),
        ROLES,
        batch_size=batch_size,
        context=context,
        seed=seed,
        mask_probability=0.15,
        vocab_size=VOCAB,
    )


def letters(tokens: int) -> np.ndarray:
    """Ordinary tokens alone, 5 … 99 over and over."""
    return np.arange(tokens, dtype=np.uint16) % (VOCAB - len(SPECIAL)) + len(SPECIAL)


class Scripted:
    """A generator that returns the numbers it was given, three for each token."""

    def __init__(self, numbers: list[list[float]]) -> None:
        self.numbers = np.array(numbers)

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        assert shape == self.numbers.shape
        return self.numbers


def test_numbers_decide_what_becomes_of_a_token() -> None:
    # Probability 0.5: below 0.40 masked, below 0.45 replaced, below 0.50 kept, else not chosen; </s> never.
    # The replacement is ordinary token number floor(0.1 x 95) = 9, the id 5 + 9 = 14.
    choice = [0.39, 0.44, 0.49, 0.51, 0.01]
    draw = Scripted([[number, 0.0, 0.1] for number in choice])
    inputs, labels = Masker(ROLES, VOCAB, 0.5).hide(np.array([[10, 11, 12, 13, 2]]), np.ones((1, 5), dtype=bool), draw)  # type: ignore[arg-type]
    assert inputs.tolist() == [[3, 14, 12, 13, 2]]
    assert labels.tolist() == [[10, 11, 12, IGNORED, IGNORED]]


def test_a_window_with_nothing_chosen_gets_its_nearest_miss() -> None:
    # Row 0: 0.6 is the smallest number of an ordinary token; 0.5 x 0.9 = 0.45 decides its fate: kept.
    # Row 1 has special tokens alone and stays without a label.
    draw = Scripted([[0.1, 0, 0], [0.7, 0, 0], [0.6, 0.9, 0], [0.1, 0, 0], [0.1, 0, 0], [0.1, 0, 0]])
    inputs, labels = Masker(ROLES, VOCAB, 0.5).hide(
        np.array([[1, 10, 11], [2, 1, 4]]), np.ones((2, 3), dtype=bool), draw
    )  # type: ignore[arg-type]
    assert inputs.tolist() == [[1, 10, 11], [2, 1, 4]]
    assert labels.tolist() == [[IGNORED, IGNORED, 11], [IGNORED] * 3]


def test_no_number_is_drawn_for_padding_and_none_is_hidden() -> None:
    # Four tokens take four triples, row by row: 0.39 and 0.41 in row 0, 0.51 and 0.38 in row 1. The 20 in the
    # padding of row 0 is an ordinary token, and yet it is neither hidden nor scored.
    present = np.array([[True, True, False], [True, True, False]])
    draw = Scripted([[number, 0.0, 0.1] for number in (0.39, 0.41, 0.51, 0.38)])
    inputs, labels = Masker(ROLES, VOCAB, 0.5).hide(np.array([[10, 11, 20], [12, 13, 0]]), present, draw)  # type: ignore[arg-type]
    assert inputs.tolist() == [[3, 14, 20], [12, 3, 0]]
    assert labels.tolist() == [[10, 11, IGNORED], [IGNORED, 13, IGNORED]]


def test_shares_are_15_percent_and_80_10_10() -> None:
    tokens = letters(400_000).astype(np.int64).reshape(-1, 100)
    inputs, labels = Masker(ROLES, VOCAB, 0.15).hide(tokens, np.ones(tokens.shape, dtype=bool), generator(7))
    chosen = labels != IGNORED
    masked, kept = (inputs == ROLES.mask) & chosen, (inputs == tokens) & chosen
    # 60,000 are chosen: a standard deviation is 226 of them, and of their shares at most 0.0016. One in 95
    # replacements is the token itself: kept is 0.1 + 0.1 / 95. Bounds are five deviations wide.
    assert abs(chosen.sum() - 60_000) < 1130
    assert abs(masked.sum() / chosen.sum() - 0.8) < 0.0085
    assert abs(kept.sum() / chosen.sum() - (0.1 + 0.1 / 95)) < 0.0065
    replaced = inputs[chosen & ~masked & ~kept]
    assert set(replaced.tolist()) == set(range(5, VOCAB))
    assert np.bincount(replaced, minlength=VOCAB)[5:].std() < 2 * np.sqrt(len(replaced) / 95)
    assert np.array_equal(inputs[~chosen], tokens[~chosen])
    assert np.array_equal(labels[chosen], tokens[chosen])


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.integers(0, 5))
def test_special_tokens_are_never_hidden_and_every_other_window_has_a_label(stream: list[int], seed: int) -> None:
    made = batches(np.array(stream, dtype=np.uint16), seed=seed)
    results = [*made.whole(), *islice(made.training(), 3)]
    for batch in results:
        chosen = batch.labels != IGNORED
        assert not np.isin(batch.labels[chosen], SPECIAL).any()
        ordinary = chosen | ~np.isin(batch.input_ids, SPECIAL)
        assert np.array_equal(chosen.any(axis=1), ordinary.any(axis=1))


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 12))
def test_whole_shows_every_token_once_in_order(tokens: int, batch_size: int, context: int) -> None:
    stream = letters(tokens)
    result = batches(stream, batch_size=batch_size, context=context).whole()
    restored = [np.where(batch.labels == IGNORED, batch.input_ids, batch.labels).ravel() for batch in result]
    assert np.array_equal(np.concatenate(restored), stream)


def test_masks_of_whole_depend_on_neither_seed_nor_batch_size() -> None:
    stream = letters(1003)
    first = list(batches(stream, batch_size=4, seed=1).whole())
    other = list(batches(stream, batch_size=7, seed=2).whole())
    for name in ("input_ids", "labels"):
        left, right = (np.concatenate([getattr(batch, name).ravel() for batch in result]) for result in (first, other))
        assert np.array_equal(left, right)


def test_masks_are_new_in_every_epoch() -> None:
    # One window, the whole stream, in every batch: only the masks can differ.
    made = batches(letters(64), batch_size=1, context=64)
    assert made.batches_per_epoch == 1
    hidden = [tuple(batch.labels[0].tolist()) for batch in islice(made.training(), 10)]
    assert len(set(hidden)) == 10


@given(st.integers(0, 40))
def test_training_from_k_is_training_without_the_first_k(start: int) -> None:
    made = batches(letters(200))
    expected = islice(made.training(), start, start + 4)
    for left, right in zip(expected, islice(made.training(start), 4), strict=True):
        assert np.array_equal(left.input_ids, right.input_ids)
        assert np.array_equal(left.labels, right.labels)


def test_a_batch_counts_the_tokens_it_reads_and_predicts_a_share_of_them() -> None:
    made = batches(letters(10_000), batch_size=20, context=100)
    counts = [batch.target_tokens for batch in islice(made.training(), 50)]
    # 2,000 tokens x 0.15 = 300, with a standard deviation of 16 a batch and 2.3 for the mean of 50.
    assert made.tokens_per_batch == next(made.training()).tokens == 2000
    assert abs(np.mean(counts) - 300) < 12


def test_a_tokenizer_without_a_mask_is_refused() -> None:
    with pytest.raises(UsageError, match="no mask token"):
        Masker(TokenRoles(pad=0, bos=1, eos=2), VOCAB, 0.15)


def in_threes(tokens: np.ndarray) -> np.ndarray:
    """Words of three tokens."""
    return np.broadcast_to(np.arange(tokens.shape[1]) % 3 == 0, tokens.shape)


def test_a_word_is_chosen_by_its_first_token_and_each_of_its_tokens_has_a_fate_of_its_own() -> None:
    # Probability 0.5. The first word's first number, 0.39, chooses it, and masks its first token (below 0.40); the
    # others have 0.85 · 0.5 = 0.425, replaced, and 0.95 · 0.5 = 0.475, kept. The second word is not chosen, though its
    # second token has a low number; nor is </s>, and what stands behind it begins a word.
    choice = [0.39, 0.85, 0.95, 0.6, 0.1, 0.2, 0.1, 0.3]
    draw = Scripted([[number, 0.0, 0.1] for number in choice])
    tokens = np.array([[10, 11, 12, 13, 14, 15, 2, 16]])
    masker = Masker(ROLES, VOCAB, 0.5, in_threes)
    inputs, labels = masker.hide(tokens, np.ones((1, 8), dtype=bool), draw)  # type: ignore[arg-type]
    assert inputs.tolist() == [[3, 14, 12, 13, 14, 15, 2, 3]]
    assert labels.tolist() == [[10, 11, 12, IGNORED, IGNORED, IGNORED, IGNORED, 16]]


def test_words_are_hidden_as_wholes_with_the_shares_of_bert() -> None:
    tokens = letters(360_000).astype(np.int64).reshape(-1, 90)
    masker = Masker(ROLES, VOCAB, 0.15, in_threes)
    inputs, labels = masker.hide(tokens, np.ones(tokens.shape, dtype=bool), generator(7))
    chosen = labels != IGNORED
    by_word = chosen.reshape(-1, 3)
    assert (by_word.all(axis=1) == by_word.any(axis=1)).all()
    # 120,000 words, of which 18,000 are chosen: a standard deviation is 124, and a window of 30 words has one at least,
    # which adds 4,000 · 0.85^30 = 31 on average.
    assert abs(by_word[:, 0].sum() - 18_031) < 620
    masked, kept = (inputs == ROLES.mask) & chosen, (inputs == tokens) & chosen
    assert abs(masked.sum() / chosen.sum() - 0.8) < 0.0085
    assert abs(kept.sum() / chosen.sum() - (0.1 + 0.1 / 95)) < 0.0065
    # The tokens of a word are not all masked together, or none: 0.8 · 0.8 of the chosen have both first ones masked.
    both = masked.reshape(-1, 3)[by_word[:, 0]][:, :2].all(axis=1)
    assert abs(both.mean() - 0.64) < 5 * 0.0036
