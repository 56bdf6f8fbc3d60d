"""The door: settings and prompts are checked, and what streams is what is returned."""

from dataclasses import replace

import pytest

from tests.generation.runs import run, small, tokenizer
from tfcli.errors import UsageError
from tfcli.generation.decode import NewToken
from tfcli.generation.generate import _pieces, generate, stream, texts
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import Filled, Generated

SETTINGS = GenerateSection(max_new_tokens=10, seed=3)
GREEDY = replace(SETTINGS, temperature=0.0)


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece", "unigram", "word", "char"])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_streams_is_what_is_returned(architecture: str, algorithm: str, seed: int):
    loaded = run(architecture, algorithm, seed)
    *pieces, record = stream(loaded, "the cat", SETTINGS, sample=True)
    assert generate(loaded, "the cat", SETTINGS, sample=True) == [record]
    assert isinstance(record, Generated)
    assert record.text == "".join(pieces)
    assert all(pieces)
    assert record.prompt == "the cat"
    assert 1 <= len(record.token_ids) <= 10


def test_a_continuation_keeps_the_space_that_parts_it_from_its_prompt():
    """A tokenizer that puts the space between words puts none before a text on its own."""
    words = tokenizer("wordpiece")
    prompt, more = words.encode("the cat"), words.encode("sat")
    tokens = iter([NewToken(0, token, 0.0) for token in more])
    *pieces, _ = _pieces(words, "the cat", tokens, prompt)
    assert "".join(pieces) == " sat"


def test_no_piece_is_half_a_character():
    """A byte-level tokenizer spells each of these characters as several tokens."""
    words, text = tokenizer("bpe"), "naïve 🙂 — 日本"
    ids = words.encode(text)
    assert len(ids) > len(text)
    *pieces, record = _pieces(words, "", iter([NewToken(0, token, -0.5) for token in ids]), [])
    assert "".join(pieces) == text == record.text
    assert not any("\ufffd" in piece for piece in pieces)
    assert record.score == pytest.approx(-0.5 * len(ids))


def test_a_character_that_stays_half_is_shown_as_one_that_cannot_be():
    words = tokenizer("bpe")
    half = words.encode("🙂")[:2]
    *pieces, record = _pieces(words, "", iter([NewToken(0, token, 0.0) for token in half]), [])
    assert record.text == "".join(pieces)
    assert set(record.text) == {"\ufffd"}


def test_a_decoder_begins_without_a_prompt():
    (record,) = generate(run("decoder"), "", SETTINGS)
    assert record.prompt == ""
    assert record.token_ids


def test_a_decoder_samples_and_an_encoder_decoder_does_not_unless_asked():
    decoder, translator = run("decoder"), run("encoder-decoder")
    assert generate(decoder, "the", SETTINGS) == generate(decoder, "the", SETTINGS, sample=True)
    assert generate(decoder, "the", SETTINGS, sample=False) == generate(decoder, "the", GREEDY)
    assert generate(translator, "the", SETTINGS) == generate(translator, "the", GREEDY)
    assert generate(translator, "the", SETTINGS, sample=True) != generate(translator, "the", GREEDY)
    assert generate(decoder, "the", SETTINGS) != generate(decoder, "the", GREEDY)


def test_samples_share_a_prompt():
    records = generate(run("decoder"), "the cat", replace(SETTINGS, num_samples=4))
    assert len(records) == 4
    assert len({record.text for record in records}) > 1


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_a_beam_gives_its_best_texts(architecture: str):
    loaded = run(architecture)
    records = generate(loaded, "the cat", replace(SETTINGS, beam=4, num_samples=3))
    assert len({record.token_ids for record in records}) == 3
    assert generate(loaded, "the cat", replace(SETTINGS, beam=4)) == records[:1]


def test_an_encoder_fills_with_as_many_candidates_as_asked():
    loaded = run("encoder")
    filled = generate(loaded, "the <mask> sat", SETTINGS)
    assert isinstance(filled, Filled)
    assert len(filled.predictions[0]) == 5
    assert len(generate(loaded, "the <mask> sat", replace(SETTINGS, top_k=2)).predictions[0]) == 2


def test_text_is_no_special_token_by_its_spelling():
    """A prompt that spells the end token is read letter by letter, and the context counts every one."""
    model, words = small("decoder", "char", max_seq_len=8), tokenizer("char")
    assert len(texts(model, words, "</s>", GREEDY)) == 1
    with pytest.raises(UsageError, match="has 9 tokens"):
        texts(model, words, "</s></s>", GREEDY)


REFUSED = [
    (
        "decoder",
        "the",
        {"top_k": 301},
        r"top_k = 301 is above the vocabulary's 300 tokens; choose 300 at most",
    ),
    ("encoder", "<mask>", {"top_k": 301}, r"top_k = 301 is above the vocabulary"),
    ("decoder", "the", {"beam": 2, "num_samples": 3}, r"beam of 2 cannot give 3 texts; raise the beam"),
    ("decoder", "the cat " * 40, {}, r"context of 32 leaves no room"),
    ("encoder-decoder", "the cat " * 40, {}, r"context is 32; shorten it to 31 tokens"),
    ("encoder-decoder", "", {}, r"The prompt '' is empty, and this run translates; give it a sentence"),
]


@pytest.mark.parametrize(("architecture", "prompt", "changes", "message"), REFUSED)
def test_what_does_not_fit_is_refused_before_any_text(architecture: str, prompt: str, changes: dict, message: str):
    loaded, settings = run(architecture), replace(SETTINGS, **changes)
    with pytest.raises(UsageError, match=message):
        generate(loaded, prompt, settings)
    if architecture != "encoder":
        with pytest.raises(UsageError, match=message):
            stream(loaded, prompt, settings)


def test_a_beam_and_a_temperature_contradict_each_other():
    beam = replace(SETTINGS, beam=2)
    with pytest.raises(UsageError, match=r"beam of 2 draws no samples.*temperature = 1 .*give one of the two"):
        generate(run("decoder"), "the", beam, sample=True)
    assert generate(run("decoder"), "the", replace(beam, temperature=0.0), sample=True)
