"""Where words begin in rows of ids: as `Tokenizer.words` cuts them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcli.corpora.stories import stories
from tfcli.recipe.data import Algorithm, TokenizerSection
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.train import train_tokenizer

ALGORITHMS: tuple[Algorithm, ...] = ("bpe", "wordpiece", "unigram", "word", "char")


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    texts = [story for story, _ in zip(stories(0), range(60), strict=False)]
    sizes = {"bpe": 400, "wordpiece": 200, "unigram": 200, "word": 300, "char": 120}
    sections = [TokenizerSection(algorithm=one, vocab_size=sizes[one]) for one in ALGORITHMS]
    return {one.algorithm: train_tokenizer(lambda: iter(texts), one)[0] for one in sections}


def starts(tokenizer: Tokenizer, text: str) -> list[bool]:
    ids = tokenizer.roles.text(tokenizer.encode(text))
    return tokenizer.word_starts(np.array([ids]))[0].tolist()


def expected(tokenizer: Tokenizer, text: str) -> list[bool]:
    ids = tokenizer.roles.text(tokenizer.encode(text))
    firsts = {word.places[0] for word in tokenizer.words(ids)}
    return [place in firsts for place in range(len(ids))]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_word_is_what_stands_between_spaces_and_signs(tokenizers: dict[str, Tokenizer], algorithm: str) -> None:
    tokenizer = tokenizers[algorithm]
    for text in ('Soon the unforeseeable rabbits\' lid, "grey" and 12 men!\n\nOne day  two', "a", "", " x", "x\n"):
        assert starts(tokenizer, text) == expected(tokenizer, text), text


def test_by_hand(tokenizers: dict[str, Tokenizer]) -> None:
    # Letter by letter: <s>, "no", the space that the next word takes along, "ab", ".", </s>.
    assert starts(tokenizers["char"], "no ab.") == [True, True, False, True, False, False, True, True]


@given(text=st.text(st.sampled_from("abé 日!.'\n-1"), max_size=40), algorithm=st.sampled_from(ALGORITHMS))
def test_any_text_is_cut_alike(tokenizers: dict[str, Tokenizer], text: str, algorithm: str) -> None:
    assert starts(tokenizers[algorithm], text) == expected(tokenizers[algorithm], text)
