"""Masks are filled as the encoder's own softmax says."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.runs import small, tokenizer
from tests.generation.small import small_model
from tfcli.errors import UsageError
from tfcli.generation.fill_mask import fill_all
from tfcli.models.transformer import Transformer
from tfcli.records.generation import Filled
from tfcli.tokenization.tokenizer import Tokenizer

PROMPT = "the <mask> sat on the <mask>"


def special_ids(words: Tokenizer) -> set[int]:
    return set(words.roles.ids())


def fill(model: Transformer, words: Tokenizer, prompt: str, **options: Any) -> Filled:
    return fill_all(model, words, [prompt], **options)[0]


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


@pytest.mark.parametrize("joint", [False, True])
def test_ids_beyond_the_tokenizer_fill_no_mask(joint: bool):
    """A model's vocabulary may be padded to a round number; here what is padded is what it would say first."""
    words = tokenizer("word")
    model = small_model(architecture="encoder", vocab_size=words.vocab_size + 8, max_seq_len=32, head_bias=True)
    model.head.bias.data[words.vocab_size :] = 100.0
    filled = fill(model, words, "the <mask> sat <mask>", top_k=999, joint=joint)
    ordinary = set(range(words.vocab_size)) - special_ids(words)
    for candidates in filled.predictions:
        assert sorted(c.token for c in candidates) == sorted(words.labels(ordinary))


def test_five_candidates_are_the_default():
    (candidates,) = fill(small("encoder"), tokenizer(), "the <mask>").predictions
    assert len(candidates) == 5


@pytest.mark.parametrize("prompt", ["", "the cat sat", "the [mask] sat"])
def test_a_prompt_without_a_mask_is_refused_with_an_example(prompt: str):
    with pytest.raises(UsageError, match=r"has no <mask>.*put <mask> where a word.*'the <mask> sat on the mat'"):
        fill(small("encoder"), tokenizer(), prompt)


def test_a_prompt_longer_than_the_context_is_refused():
    """30 masks, the beginning and the end: 32 tokens fit the context of 32, one more does not."""
    model, words = small("encoder", "word"), tokenizer("word")
    assert len(fill(model, words, "<mask>" * 30).predictions) == 30
    with pytest.raises(UsageError, match=r"has 33 tokens.*context is 32; shorten it to 30 tokens"):
        fill(model, words, "<mask>" * 31)


WORDS = ["the", "cat", "sat", "<mask>", "dog", "mat", "on"]
PROMPTS = st.lists(st.sampled_from(WORDS), max_size=6).map(lambda words: " ".join([*words, "<mask>"]))


def assert_alike(found: Filled, expected: Filled) -> None:
    """But for rounding in the probabilities."""
    assert (found.prompt, found.text, found.order) == (expected.prompt, expected.text, expected.order)
    for row, wanted in zip(found.predictions, expected.predictions, strict=True):
        assert [c.token for c in row] == [c.token for c in wanted]
        assert [c.probability for c in row] == pytest.approx([c.probability for c in wanted])


@settings(max_examples=25, deadline=None)
@given(st.lists(PROMPTS, max_size=5), st.booleans(), st.integers(0, 9))
def test_prompts_side_by_side_are_filled_as_each_alone(prompts: list[str], joint: bool, seed: int):
    model, words = small("encoder", "word", seed), tokenizer("word")
    together = fill_all(model, words, prompts, top_k=3, joint=joint)
    assert len(together) == len(prompts)
    for found, prompt in zip(together, prompts, strict=True):
        assert_alike(found, fill(model, words, prompt, top_k=3, joint=joint))


@torch.inference_mode()
def surest_first(model: Transformer, words: Tokenizer, prompt: str) -> tuple[list[int], list[float], list[int]]:
    """A pass for every mask over the text as it is then: what was filled, how sure it was, and each mask's turn."""
    ids = [words.roles.bos, *words.encode_masked(prompt), words.roles.eos]
    masks = [place for place, token in enumerate(ids) if token == words.roles.mask]
    turns, sure = [0] * len(masks), [0.0] * len(masks)
    for turn in range(len(masks)):
        probabilities = model(torch.tensor([ids]))[0].softmax(-1)
        probabilities[:, sorted(special_ids(words))] = 0
        place = max((m for m in masks if ids[m] == words.roles.mask), key=lambda m: probabilities[m].max().item())
        turns[masks.index(place)], sure[masks.index(place)] = turn, probabilities[place].max().item()
        ids[place] = int(probabilities[place].argmax())
    return ids, sure, turns


@pytest.mark.parametrize("seed", range(4))
def test_joint_filling_reads_the_surest_before_it_goes_on(seed: int):
    prompt = "the <mask> sat <mask> the <mask> and <mask>"
    model, words = small("encoder", "word", seed), tokenizer("word")
    ids, sure, turns = surest_first(model, words, prompt)
    filled = fill(model, words, prompt, top_k=2, joint=True)
    assert filled.text == words.decode(ids)
    assert filled.order == tuple(turns)
    assert [row[0].probability for row in filled.predictions] == pytest.approx(sure)


def test_joint_filling_finds_what_masks_alone_do_not():
    """Else the test above could not tell the two apart."""
    model, words = small("encoder", "word", 1), tokenizer("word")
    alone, joint = (fill(model, words, "<mask> <mask> <mask> <mask>", joint=joint) for joint in (False, True))
    assert alone.order is None
    assert alone.text != joint.text
    assert joint.order is not None
    first = joint.order.index(0)
    assert joint.predictions[first] == alone.predictions[first], "the first is read with all the others masked"
