"""Beam search against greedy decoding and against all texts there are."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.small import ROLES, ScriptedReader, small_model
from tfcli.generation.beam import beam_search, length_penalty, ranking
from tfcli.generation.decode import Continuation, collect, continuations, translations
from tfcli.generation.reader import Reader, read_prompt, read_sources
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.transformer import Transformer
from tfcli.recipe.generate import GenerateSection

PROMPT, SOURCE = [1, 6], [5, 6, 5]
ARCHITECTURES = ["decoder", "encoder-decoder"]


def begun(model: Transformer, beam: int, limit: int) -> Reader:
    if isinstance(model, EncoderDecoder):
        return read_sources(model, [SOURCE], ROLES, rows=beam, max_new_tokens=limit)
    return read_prompt(model, PROMPT, rows=beam, max_new_tokens=limit)


@torch.inference_mode()
def log_probability(model: Transformer, text: tuple[int, ...]) -> float:
    """By one pass over the whole text without a cache."""
    if isinstance(model, EncoderDecoder):
        logits = model(torch.tensor([[*SOURCE, ROLES.eos]]), torch.tensor([[ROLES.bos, *text[:-1]]]))[0]
    else:
        logits = model(torch.tensor([[*PROMPT, *text[:-1]]]))[0, len(PROMPT) - 1 :]
    return logits.log_softmax(-1)[range(len(text)), text].sum().item()


def all_texts(ordinary: range, limit: int) -> list[tuple[int, ...]]:
    """Every text of ordinary tokens that ends within the limit, or reaches it."""
    texts = list(product(ordinary, repeat=limit))
    return texts + [(*text, ROLES.eos) for length in range(limit) for text in product(ordinary, repeat=length)]


def test_the_length_penalty_by_hand():
    """(5 + 1) / 6 = 1 and (5 + 7) / 6 = 2, to the power 0.6."""
    assert length_penalty(1) == 1
    assert length_penalty(7) == pytest.approx(1.5157, abs=1e-4)
    assert ranking(Continuation((5,) * 7, -3.0)) == pytest.approx(-3 / 1.5157, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(ARCHITECTURES), st.integers(0, 999))
def test_a_beam_of_one_is_greedy(architecture: str, seed: int):
    model = small_model(seed, architecture=architecture)
    section = GenerateSection(temperature=0, max_new_tokens=9)
    if isinstance(model, EncoderDecoder):
        greedy = collect(translations(model, SOURCE, ROLES, section), 1)[0]
    else:
        greedy = collect(continuations(model, PROMPT, ROLES, section), 1)[0]
    (found,) = beam_search(begun(model, 1, 9), ROLES, beam=1)
    assert found.token_ids == greedy.token_ids
    assert found.score == pytest.approx(greedy.score, abs=1e-9)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("seed", range(6))
def test_a_beam_that_holds_everything_finds_the_best_texts_there_are(architecture: str, seed: int):
    """Of two ordinary tokens and the end, four at most: 16 texts reach the limit, and 1 + 2 + 4 + 8 end."""
    model = small_model(seed, architecture=architecture, vocab_size=7)
    texts = [Continuation(text, log_probability(model, text)) for text in all_texts(range(5, 7), 4)]
    assert len(texts) == 31
    best = sorted(texts, key=ranking, reverse=True)[:5]
    found = beam_search(begun(model, 32, 4), ROLES, beam=32, best=5)
    assert [text.token_ids for text in found] == [text.token_ids for text in best]
    assert [text.score for text in found] == pytest.approx([text.score for text in best], abs=1e-9)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("beam", [2, 3, 5])
def test_scores_are_those_of_a_whole_pass_and_ranks_fall(architecture: str, beam: int):
    model = small_model(4, architecture=architecture)
    found = beam_search(begun(model, beam, 8), ROLES, beam=beam, best=beam)
    assert len({text.token_ids for text in found}) == beam
    assert [text.score for text in found] == pytest.approx([log_probability(model, t.token_ids) for t in found])
    ranks = [ranking(text) for text in found]
    assert ranks == sorted(ranks, reverse=True)


def test_a_wider_beam_finds_what_greedy_overlooks():
    """5 comes first with 0.6, yet what follows it has 0.5 at best; 6 has 0.4 and then ends for certain.

    5 and end: 0.6 · 0.5 = 0.3. 6 and end: 0.4 · 1 = 0.4.
    """
    table = torch.full((8, 8), -torch.inf)
    table[7, 5], table[7, 6] = torch.tensor(0.6).log(), torch.tensor(0.4).log()
    table[5, 2], table[5, 7] = torch.tensor(0.5).log(), torch.tensor(0.5).log()
    table[6, 2] = 0.0
    start = torch.tensor([7])
    (greedy,) = beam_search(ScriptedReader(table, start, limit=6), ROLES, beam=1)
    (wide,) = beam_search(ScriptedReader(table, start, limit=6), ROLES, beam=2)
    assert greedy.token_ids[0] == 5
    assert wide.token_ids == (6, 2)
    assert wide.score == pytest.approx(torch.tensor(0.4).log().item())


def test_a_long_text_can_overtake_one_that_ended_at_once():
    """The end has 0.6 at once: ln 0.6 = −0.51. 5 has 0.4, and then follows itself for certain to the limit.

    Twelve tokens have the penalty (17 / 6)^0.6 = 1.87, and ln 0.4 / 1.87 = −0.49 ranks above −0.51; ten have
    (15 / 6)^0.6 = 1.73 and −0.53. A search that judged the live text by its length so far would give up.
    """
    table = torch.full((7, 7), -torch.inf)
    table[6, 2], table[6, 5], table[5, 5] = torch.tensor(0.6).log(), torch.tensor(0.4).log(), 0.0
    start = torch.tensor([6])
    (found,) = beam_search(ScriptedReader(table, start, limit=12), ROLES, beam=2)
    assert found.token_ids == (5,) * 12
    (found,) = beam_search(ScriptedReader(table, start, limit=10), ROLES, beam=2)
    assert found.token_ids == (2,)


def test_the_search_stops_when_nothing_can_overtake():
    """The end has 0.99 at once; what is left has 0.01 and cannot catch up within a limit of 50."""
    table = torch.full((7, 7), -torch.inf)
    table[:, 2], table[:, 5] = torch.tensor(0.99).log(), torch.tensor(0.01).log()
    reader = ScriptedReader(table, torch.tensor([6]), limit=50)
    (found,) = beam_search(reader, ROLES, beam=2)
    assert found.token_ids == (2,)
    assert reader.rows_read == []
