"""Masks are filled as the encoder's own softmax says."""

import pytest
import torch

from tests.generation.runs import small, tokenizer
from tfcli.errors import UsageError
from tfcli.generation.fill_mask import fill
from tfcli.tokenization.tokenizer import Tokenizer

PROMPT = "the <mask> sat on the <mask>"


def special_ids(words: Tokenizer) -> set[int]:
    return set(words.roles.ids())


@pytest.mark.parametrize("algorithm", ["bpe", "word"])
def test_candidates_are_the_best_ordinary_tokens_of_the_whole_softmax(algorithm: str):
    model, words = small("encoder", algorithm), tokenizer(algorithm)
    ids = [words.roles.bos, *words.encode_masked(PROMPT), words.roles.eos]
    with torch.inference_mode():
        probabilities = model(torch.tensor([ids]))[0].softmax(-1)
    filled = fill(model, words, PROMPT, top_k=3)
    places = [place for place, token in enumerate(ids) if token == words.roles.mask]
    assert len(filled.predictions) == len(places) == 2
    for place, candidates in zip(places, filled.predictions, strict=True):
        ordinary = [token for token in range(words.vocab_size) if token not in special_ids(words)]
        best = sorted(ordinary, key=lambda token: -probabilities[place, token])[:3]
        assert [c.token for c in candidates] == words.labels(best)
        assert [c.probability for c in candidates] == pytest.approx(probabilities[place, best].tolist())
        ids[place] = best[0]
    assert filled.prompt == PROMPT
    assert filled.text == words.decode(ids)


def test_probabilities_of_all_ordinary_tokens_leave_out_those_of_special_ones():
    """More candidates than there are: all are given, and what misses to 1 is the special tokens' share."""
    model, words = small("encoder", "word"), tokenizer("word")
    (candidates,) = fill(model, words, "<mask>", top_k=words.vocab_size).predictions
    assert len(candidates) == words.vocab_size - len(special_ids(words))
    assert 0 < sum(candidate.probability for candidate in candidates) < 1


def test_five_candidates_are_the_default():
    (candidates,) = fill(small("encoder"), tokenizer(), "the <mask>").predictions
    assert len(candidates) == 5


@pytest.mark.parametrize("prompt", ["", "the cat sat", "the [MASK] sat"])
def test_a_prompt_without_a_mask_is_refused_with_an_example(prompt: str):
    with pytest.raises(UsageError, match=r"has no <mask>.*put <mask> where a word.*'the <mask> sat on the mat'"):
        fill(small("encoder"), tokenizer(), prompt)


def test_a_prompt_longer_than_the_context_is_refused():
    """30 masks, the beginning and the end: 32 tokens fit the context of 32, one more does not."""
    model, words = small("encoder", "word"), tokenizer("word")
    assert len(fill(model, words, "<mask>" * 30).predictions) == 30
    with pytest.raises(UsageError, match=r"has 33 tokens.*context is 32; shorten it to 30 tokens"):
        fill(model, words, "<mask>" * 31)
