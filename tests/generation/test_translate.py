"""A corpus in batches gives what each sentence gives alone."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.small import FIRST, ROLES, small_model
from tfcli.generation.decode import collect, translations
from tfcli.generation.translate import translate
from tfcli.recipe.generate import GenerateSection

MAX_NEW = GenerateSection(max_new_tokens=10)
GREEDY = GenerateSection(max_new_tokens=10, temperature=0)


def alone(model, source: list[int]) -> list[int]:
    ids = collect(translations(model, source, ROLES, GREEDY), 1)[0].token_ids
    return [token for token in ids if token != ROLES.eos]


def corpus(size: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(12) for _ in range(draw.randrange(12))] for _ in range(size)]


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 99),
    st.integers(1, 9),
    st.sampled_from(["sinusoidal", "learned", "rotary"]),
    st.sampled_from([1, 2]),
)
def test_batches_translate_as_each_sentence_alone(seed: int, batch_size: int, positions: str, kv_heads: int):
    """Sources hold ids of special tokens (padding is told by length, not by id) and may be empty."""
    model = small_model(seed, architecture="encoder-decoder", positions=positions, num_kv_heads=kv_heads)
    sources = corpus(9, seed)
    assert translate(model, sources, ROLES, MAX_NEW, batch_size) == [alone(model, source) for source in sources]


def test_texts_of_one_batch_end_at_different_steps():
    """Else the test above would not see a finished row leave."""
    model = small_model(0, architecture="encoder-decoder")
    found = translate(model, corpus(40, 0), ROLES, MAX_NEW, 40)
    assert len({len(text) for text in found}) > 3
    assert all(set(text) <= set(range(FIRST, 12)) for text in found)


def test_an_empty_corpus_has_no_translations():
    assert translate(small_model(architecture="encoder-decoder"), [], ROLES, MAX_NEW) == []
