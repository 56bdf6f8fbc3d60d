"""The door: settings and prompts are checked, and what streams is what is returned."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as having
from hypothesis import strategies as st

from tests.generation.runs import run, tokenizer
from tfcli.errors import UsageError
from tfcli.generation.decoding import NewToken, prompt_tokens
from tfcli.generation.generate import GrowingText, PromptBatch, _pieces, generate, generate_all, stream
from tfcli.recipe.recipe import GenerateSection
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
    *pieces, _ = _pieces(GrowingText(words, "the cat", prompt, SETTINGS), tokens)
    assert "".join(pieces) == " sat"


def test_no_piece_is_half_a_character():
    """A byte-level tokenizer spells each of these characters as several tokens."""
    words, text = tokenizer("bpe"), "naïve 🙂 — 日本"
    ids = words.encode(text)
    assert len(ids) > len(text)
    *pieces, record = _pieces(GrowingText(words, "", [], SETTINGS), [NewToken(0, token, -0.5) for token in ids])
    assert "".join(pieces) == text == record.text
    assert not any("\ufffd" in piece for piece in pieces)
    assert record.log_probabilities == (-0.5,) * len(ids)
    assert record.score == pytest.approx(-0.5 * len(ids))


def test_a_character_that_stays_half_is_shown_as_one_that_cannot_be():
    words = tokenizer("bpe")
    half = words.encode("🙂")[:2]
    *pieces, record = _pieces(GrowingText(words, "", [], SETTINGS), [NewToken(0, token, 0.0) for token in half])
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
    loaded = run("decoder", "char", max_seq_len=8)
    assert len(generate(loaded, "</s>", GREEDY)) == 1
    with pytest.raises(UsageError, match="has 9 tokens"):
        generate(loaded, "</s></s>", GREEDY)


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


PROMPTS = ["the cat", "", "she ran to the river bank, and", "the", "dog", "the cat sat"]


@pytest.mark.parametrize("settings", [GREEDY, replace(SETTINGS, num_samples=3)], ids=["greedy", "samples"])
@pytest.mark.parametrize(("algorithm", "batch_size"), [("bpe", 1), ("bpe", 2), ("word", 32)])
def test_prompts_of_different_length_get_what_each_gets_alone(
    settings: GenerateSection, algorithm: str, batch_size: int
):
    """Behind "" a word has no space before it, which words joined by spaces have behind "the"."""
    loaded = run("decoder", algorithm)
    together = list(generate_all(loaded, PROMPTS, replace(settings, batch_size=batch_size)))
    for prompt, texts in zip(PROMPTS, together, strict=True):
        alone = generate(loaded, prompt, settings)
        assert [(text.prompt, text.token_ids, text.text) for text in texts] == [
            (prompt, text.token_ids, text.text) for text in alone
        ]


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_beams_of_several_prompts_are_those_of_each_alone(architecture: str):
    loaded, settings = run(architecture), replace(SETTINGS, beam=3, num_samples=2)
    prompts = [prompt for prompt in PROMPTS if prompt]
    for prompt, texts in zip(prompts, generate_all(loaded, prompts, settings), strict=True):
        assert [text.token_ids for text in texts] == [text.token_ids for text in generate(loaded, prompt, settings)]


def test_masks_of_several_prompts_are_filled_in_their_order():
    loaded, prompts = run("encoder"), ["the <mask> sat", "<mask>", "she ran to the <mask> and <mask>"]
    made = list(generate_all(loaded, prompts, replace(SETTINGS, batch_size=2)))
    assert [(one.prompt, len(one.predictions)) for one in made] == list(zip(prompts, [1, 1, 2], strict=True))


def test_no_more_prompts_are_taken_than_are_read_next():
    """So that endless input is answered as it comes, in memory that does not grow."""
    taken: list[int] = []

    def endless():
        while True:
            taken.append(len(taken))
            yield "the"

    answers = generate_all(run("decoder"), endless(), replace(GREEDY, max_new_tokens=1, batch_size=4))
    for answered in (1, 2, 3, 4):
        next(answers)
        assert len(taken) == 4, answered
    next(answers)
    assert len(taken) == 8


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_log_probabilities_are_told_token_by_token_and_add_up_to_the_score(architecture: str):
    for text in generate(run(architecture), "the cat", replace(SETTINGS, num_samples=3), sample=True):
        assert len(text.log_probabilities) == len(text.token_ids)
        assert max(text.log_probabilities) <= 0
        assert text.score == pytest.approx(sum(text.log_probabilities))


def test_why_a_text_ended_is_told():
    loaded = run("decoder")
    eos = loaded.tokenizer.roles.eos
    seen = set()
    for limit in (3, 100):
        for text in generate(loaded, "the cat", replace(SETTINGS, max_new_tokens=limit, num_samples=99, temperature=9)):
            seen.add(text.finish)
            assert (text.finish == "end") == (text.token_ids[-1] == eos)
            assert (text.finish == "length") == (len(text.token_ids) == 3 and text.token_ids[-1] != eos)
    assert seen == {"end", "length", "context"}


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece", "unigram", "word", "char"])
@having(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_text_ends_before_its_stop_text_streamed_or_whole(algorithm: str, data: st.DataObject):
    """A part of what is generated without the stop text is made one: at the same place the text is cut."""
    settings = replace(SETTINGS, seed=data.draw(st.integers(0, 50)))
    loaded = run("decoder", algorithm)
    [free] = generate(loaded, "the cat", settings)
    if not free.text:
        return
    first = data.draw(st.integers(0, len(free.text) - 1))
    stop = free.text[first : first + data.draw(st.integers(1, 5))]
    [cut] = generate(loaded, "the cat", replace(settings, stop=(stop, "never made")))
    *pieces, record = stream(loaded, "the cat", replace(settings, stop=(stop, "never made")))
    assert record == cut
    assert "".join(pieces) == cut.text == free.text[: free.text.index(stop)]
    assert free.token_ids[: len(cut.token_ids)] == cut.token_ids
    assert cut.finish == "stop"
    # Not a token is made beyond the one that completes it.
    before = loaded.tokenizer.stream(loaded.tokenizer.encode("the cat"))
    assert stop not in "".join(map(before.push, cut.token_ids[:-1]))


def test_a_stop_text_ends_beams_and_every_text_of_a_batch_by_itself():
    loaded = run("decoder")
    free = list(generate_all(loaded, PROMPTS, GREEDY))
    stop = free[0][0].text[1:3]
    for prompt, [text], [before] in zip(
        PROMPTS, generate_all(loaded, PROMPTS, replace(GREEDY, stop=(stop,))), free, strict=True
    ):
        assert (text.prompt, text.text) == (prompt, before.text.partition(stop)[0])
    for text in generate(loaded, "the cat", replace(SETTINGS, beam=4, num_samples=4, stop=("a", "e"))):
        assert not {"a", "e"} & set(text.text)


def test_nothing_is_made_beyond_a_stop_text():
    loaded = run("decoder")
    [free] = generate(loaded, "the cat", GREEDY)
    settings = replace(GREEDY, stop=(free.text[2],))
    [cut] = generate(loaded, "the cat", settings)
    batch = PromptBatch(loaded.model, loaded.tokenizer, ["the cat"], settings)
    made = list(prompt_tokens(*batch.asked, **batch.how))
    assert tuple(token.token_id for token in made) == cut.token_ids != free.token_ids
    for text in generate(loaded, "the cat", replace(SETTINGS, beam=3, num_samples=3, stop=("a", "e"))):
        before = loaded.tokenizer.decode(text.token_ids[:-1])
        assert not {"a", "e"} & set(before)


def test_a_stop_text_that_another_prompt_hides_ends_the_text_all_the_same():
    """It begins with the space behind "the cat", which there is not behind "": the batch reads on, the text does
    not."""
    loaded = run("decoder", "word")
    [free] = generate(loaded, "the cat", GREEDY)
    assert free.text.startswith(" ")
    settings = replace(GREEDY, stop=(free.text[:2],))
    [alone] = generate(loaded, "the cat", settings)
    [text], _ = generate_all(loaded, ["the cat", ""], settings)
    assert (text.text, text.token_ids, text.finish) == ("", alone.token_ids, "stop")
    assert len(alone.token_ids) == 1


def test_every_translation_begins_with_the_prefix():
    loaded = run("encoder-decoder")
    settings = replace(SETTINGS, prefix="she ran to")
    for how in (settings, replace(settings, beam=3, num_samples=3), replace(settings, num_samples=2)):
        for text in generate(loaded, "the cat", how, sample=how.beam == 1):
            assert text.text.startswith("she ran to")
            assert len(text.log_probabilities) == len(text.token_ids)
    with pytest.raises(UsageError, match=r"prefix has \d+ tokens, and max_new_tokens = 2 leaves no room"):
        generate(loaded, "the cat", replace(settings, max_new_tokens=2))


def test_a_text_goes_on_beyond_the_context_where_it_may():
    loaded, long = run("decoder"), replace(GREEDY, max_new_tokens=60)
    [stopped] = generate(loaded, "the cat", long)
    [slid] = generate(loaded, "the cat", replace(long, beyond_context="slide"))
    assert slid.token_ids[: len(stopped.token_ids)] == stopped.token_ids
    if stopped.finish == "context":
        assert len(slid.token_ids) > len(stopped.token_ids)
    [much] = generate(loaded, "the cat sat on " * 30, replace(long, beyond_context="slide"))
    assert much.token_ids


def test_texts_that_slide_are_the_same_in_a_batch():
    """A long prompt fills the context before a short one does: neither may slide at the other's time."""
    loaded = run("decoder", seed=3)
    chosen = GenerateSection(temperature=0.0, max_new_tokens=60, beyond_context="slide")
    prompts = ["the cat", "the cat sat on the mat and the dog saw the cat"]
    together = [texts[0].token_ids for texts in generate_all(loaded, prompts, chosen, sample=False)]
    assert together == [generate(loaded, prompt, chosen, sample=False)[0].token_ids for prompt in prompts]
    assert len(together[0]) == 60


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"prefix": "the cat " * 20, "max_new_tokens": 500}, "the model's context of 32 leaves no room"),
        ({"prefix": "the cat " * 20, "max_new_tokens": 8}, "max_new_tokens = 8 leaves no room"),
        ({"prefix": "the cat", "stop": ("cat",)}, "'cat' is in the prefix itself"),
    ],
    ids=str,
)
def test_a_prefix_that_leaves_nothing_to_write_is_refused(settings: dict[str, Any], problem: str):
    with pytest.raises(UsageError, match=problem):
        generate(run("encoder-decoder"), "the cat", GenerateSection(**settings))
