"""A corpus in batches gives what each sentence gives alone."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.small import FIRST, ROLES, small_model
from tfcli.generation.beam_search import prompt_beams
from tfcli.generation.decoding import collect, prompt_tokens
from tfcli.generation.generate import translate
from tfcli.recipe.recipe import GenerateSection

MAX_NEW = GenerateSection(max_new_tokens=10)
GREEDY = GenerateSection(max_new_tokens=10, temperature=0)


def alone(model, source: list[int], beam: int = 1) -> list[int]:
    if beam > 1:
        [[text]] = prompt_beams(model, [source], ROLES, replace(GREEDY, beam=beam))
    else:
        [text] = collect(prompt_tokens(model, [source], ROLES, GREEDY), 1)
    return [token for token in text.token_ids if token != ROLES.eos]


def corpus(size: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(12) for _ in range(draw.randrange(12))] for _ in range(size)]


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 99),
    st.integers(1, 9),
    st.sampled_from(["sinusoidal", "learned", "rotary"]),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 3]),
)
def test_batches_translate_as_each_sentence_alone(seed: int, batch_size: int, positions: str, kv_heads: int, beam: int):
    """Sources hold ids of special tokens (padding is told by length, not by id) and may be empty."""
    model = small_model(seed, architecture="encoder-decoder", positions=positions, num_kv_heads=kv_heads)
    sources = corpus(9, seed)
    found = translate(model, sources, ROLES, replace(MAX_NEW, beam=beam), batch_size=batch_size)
    assert found == [alone(model, source, beam) for source in sources]


def test_texts_of_one_batch_end_at_different_steps():
    """Else the test above would not see a finished row leave."""
    model = small_model(0, architecture="encoder-decoder")
    found = translate(model, corpus(40, 0), ROLES, MAX_NEW, batch_size=40)
    assert len({len(text) for text in found}) > 3
    assert all(set(text) <= set(range(FIRST, 12)) for text in found)


def test_an_empty_corpus_has_no_translations():
    assert translate(small_model(architecture="encoder-decoder"), [], ROLES, MAX_NEW) == []


def test_beams_find_other_texts_than_greedy_decoding():
    """Else the beam of the test above could be ignored."""
    model, sources = small_model(0, architecture="encoder-decoder"), corpus(20, 1)
    assert translate(model, sources, ROLES, replace(MAX_NEW, beam=4)) != translate(model, sources, ROLES, MAX_NEW)


def test_the_samples_and_the_temperature_of_a_recipe_change_nothing():
    model, sources = small_model(0, architecture="encoder-decoder"), corpus(5, 2)
    sampling = replace(MAX_NEW, num_samples=3, temperature=2.0)
    assert translate(model, sources, ROLES, sampling) == translate(model, sources, ROLES, MAX_NEW)


@pytest.mark.parametrize("beam", [1, 3])
def test_translations_begin_with_a_prefix_and_end_where_they_are_told(beam: int):
    model, sources = small_model(0, architecture="encoder-decoder"), corpus(9, 3)
    found = translate(
        model, sources, ROLES, replace(MAX_NEW, beam=beam), prefix=[9, 10], ends=lambda ids: len(ids) == 3
    )
    assert all(text[:2] == [9, 10] and len(text) <= 3 for text in found)
