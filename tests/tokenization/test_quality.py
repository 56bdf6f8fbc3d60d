"""Figures of tokenizers on a text, counted by hand; what is whole, against counting overlaps one by one."""

import math
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenization.conftest import train
from tfcli.records.dataset import TokenizerQuality
from tfcli.tokenization import quality
from tfcli.tokenization import train as pieces
from tfcli.tokenization.quality import compare_tokenizers, count_whole, renyi_efficiency
from tfcli.tokenization.tokenizer import Tokenizer


def figures(tokenizer: Tokenizer, *texts: str) -> TokenizerQuality:
    (row,) = compare_tokenizers([("it", tokenizer)], "here", lambda: iter(texts)).tokenizers
    return row


def test_words_that_are_not_known_are_neither_whole_nor_exact():
    """the cat sat <unk> <unk> <unk> . — 21 bytes, 6 words, 7 tokens; the alphabet "the cat sat ." occurs whole."""
    row = figures(train("word", "the cat sat . " * 5, vocab_size=9), "the cat sat on a mat.")
    assert (row.name, row.algorithm, row.vocab_size) == ("it", "word", 9)
    assert (row.tokens, row.unknown, row.unknown_rate) == (7, 3, 3 / 7)
    assert (row.bytes_per_token, row.characters_per_token, row.fertility) == (3.0, 3.0, 7 / 6)
    assert (row.whole_words, row.single_characters) == (3 / 6, 1 / 7)
    assert (row.vocabulary_use, row.round_trip) == (1.0, 0.0)
    power = 4 * (1 / 7) ** 2.5 + (3 / 7) ** 2.5
    assert row.renyi_efficiency == pytest.approx(math.log(power) / -1.5 / math.log(4))


def test_characters_that_take_several_bytes():
    """A byte-level tokenizer of bytes alone: é is two tokens, so that "né" is three of one character or less."""
    row = figures(train("bpe", "xyz", vocab_size=260), "né a", "n")
    assert row.tokens == 6
    assert row.bytes_per_token == 1.0
    assert row.characters_per_token == 5 / 6
    assert row.single_characters == 1.0
    assert row.whole_words == 2 / 3, "a and n"
    assert row.vocabulary_use == 5 / 256, "n, two bytes, the space and a"
    assert row.round_trip == 1.0


def test_characters_are_words_of_their_own():
    """a, b and the space are three ids; "ab a" becomes four tokens, of which the second word is whole."""
    row = figures(train("char", "ab " * 9), "ab a")
    assert (row.tokens, row.fertility, row.whole_words, row.single_characters) == (4, 2.0, 0.5, 1.0)


def test_a_document_in_pieces_is_one_document(monkeypatch: pytest.MonkeyPatch):
    """Cut every 4 characters, "a b a b a b" is several pieces; the second document alone comes back otherwise."""
    cut = pieces.pieces
    monkeypatch.setattr(pieces, "pieces", lambda text: cut(text, 4))
    monkeypatch.setattr(quality, "pieces", pieces.pieces)
    tokenizer = train("char", "ab " * 9)
    compared = compare_tokenizers([("it", tokenizer)], "here", lambda: iter(["a b a b a b", "a? ? ? ? ?", "a b"]))
    assert (compared.documents, compared.characters, compared.words) == (3, 24, 13)
    assert compared.tokenizers[0].round_trip == pytest.approx(2 / 3)
    assert compared.tokenizers[0].unknown == 5


def test_special_tokens_are_no_part_of_the_vocabulary_that_can_occur(trained: dict[str, Tokenizer]):
    for algorithm, tokenizer in trained.items():
        roles = tokenizer.roles
        assert not tokenizer.ordinary_ids & set(roles.ids())
        assert len(tokenizer.ordinary_ids) == tokenizer.vocab_size - (4 if algorithm == "bpe" else 5)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4)), max_size=8),
    st.data(),
)
def test_whole_words_against_counting_overlaps(lengths: list[int], gaps: list[tuple[int, int]], data: st.DataObject):
    edges = np.cumsum([0, *lengths])
    tokens = [(int(a), int(b)) for a, b in pairwise(edges)]
    unknown = data.draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    words, place = [], 0
    for gap, length in gaps:
        words.append((place + gap, place + gap + length))
        place = words[-1][1]
    words = [word for word in words if word[1] <= edges[-1]]
    whole = 0
    for begin, end in words:
        touching = [n for n, (a, b) in enumerate(tokens) if a < end and b > begin]
        whole += len(touching) == 1 and not unknown[touching[0]]
    assert count_whole(words, tokens, unknown) == whole


def test_every_token_equally_often_is_an_efficiency_of_one():
    assert renyi_efficiency(np.array([3, 3, 3, 3]), 4) == pytest.approx(1.0)
    assert renyi_efficiency(np.array([7, 0, 0, 0]), 4) == 0.0
    assert renyi_efficiency(np.array([0, 0]), 2) == 0.0


def test_speed_is_the_timed_bytes_over_the_seconds_of_a_round(monkeypatch: pytest.MonkeyPatch):
    """A clock that moves on by 0.5 s at every look, and by more in the round that does not count: 10 of the 12 bytes in
    0.5 s are 20 bytes a second, in every other round."""
    looks = chain((0.0, 50.0, 50.0, 90.0), (100 + 0.5 * look for look in range(100)))
    monkeypatch.setattr("tfcli.tokenization.quality.time.perf_counter", lambda: next(looks))
    monkeypatch.setattr(quality, "_TIMED_BYTES", 7)
    calls: list[int] = []
    tokenizers = [train("char", "ab ") for _ in range(2)]
    for number, tokenizer in enumerate(tokenizers):
        monkeypatch.setattr(tokenizer, "encode_batch", lambda texts, number=number: calls.append((number, len(texts))))
    compared = compare_tokenizers(
        [("a", tokenizers[0]), ("b", tokenizers[1])], "here", lambda: iter(["ab ab", "ab ab", "ab"])
    )
    assert (compared.bytes, compared.timed_bytes) == (12, 10)
    for tokenizer in compared.tokenizers:
        speed = tokenizer.megabytes_per_second
        assert (speed.p10, speed.p50, speed.p90) == pytest.approx((20e-6, 20e-6, 20e-6))
    assert calls == [(0, 2), (1, 2)] * 6, "in turns, and one round more than is counted"
