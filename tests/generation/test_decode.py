"""Token by token: greedy and sampled decoding against passes over the whole text without a cache."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.generation.small import FIRST, ROLES, ScriptedReader, small_model
from tfcli.errors import UsageError
from tfcli.generation.beam_search import beam_search, prompt_beams
from tfcli.generation.decoding import DecodingStages, NewToken, collect, decode, finish_of, prefill, prompt_tokens
from tfcli.generation.generate import trace_step
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.generation import TraceStep
from tfcli.records.roles import TokenRoles

GREEDY = GenerateSection(temperature=0.0, max_new_tokens=8)
PROMPT = [1, 7, 9]
NOTHING_ENDS = TokenRoles(pad=0, bos=1, eos=99, mask=3, unk=4)
"""The end is no token of the vocabulary, so it never comes."""


@torch.inference_mode()
def whole_log_probabilities(model: torch.nn.Module, ids: list[int], source: list[int] | None = None) -> torch.Tensor:
    """ln p of the next token at every position, by one pass without a cache."""
    inputs = [torch.tensor([ids])] if source is None else [torch.tensor([source]), torch.tensor([ids])]
    return model(*inputs)[0].log_softmax(-1)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_best_allowed_token_of_a_whole_pass_each_time(seed: int):
    model = small_model(seed)
    text = collect(prompt_tokens(model, [PROMPT], ROLES, GREEDY), 1)[0]
    ids, score = list(PROMPT), 0.0
    for token in text.token_ids:
        now = whole_log_probabilities(model, ids)[-1]
        allowed = [2, *range(FIRST, 12)]
        assert token == max(allowed, key=lambda candidate: now[candidate])
        score += now[token].item()
        ids.append(token)
    assert text.score == pytest.approx(score, abs=1e-9)
    assert len(text.token_ids) == 8 or text.token_ids[-1] == ROLES.eos


@pytest.mark.parametrize("seed", range(5))
def test_a_translation_is_scored_by_its_whole_pass(seed: int):
    """The score of a sampled text is its log-probability under the model itself, whatever the filters."""
    model = small_model(seed, architecture="encoder-decoder")
    settings = GenerateSection(temperature=1.7, top_k=4, top_p=0.9, num_samples=3, max_new_tokens=6, seed=seed)
    texts = collect(prompt_tokens(model, [[5, 6, 7]], ROLES, settings), 3)
    for text in texts:
        predicted = whole_log_probabilities(model, [ROLES.bos, *text.token_ids[:-1]], [5, 6, 7, ROLES.eos])
        score = predicted[range(len(text.token_ids)), text.token_ids].sum().item()
        assert text.score == pytest.approx(score, abs=1e-9)


def test_every_sample_is_scored_by_its_whole_pass():
    """Rows that end early leave the batch: those that stay must keep their own text."""
    model = small_model(3, num_kv_heads=1)
    settings = GenerateSection(num_samples=12, max_new_tokens=10)
    texts = collect(prompt_tokens(model, [PROMPT], ROLES, settings), 12)
    assert len({len(text.token_ids) for text in texts}) > 3, "the test needs texts of different length"
    for text in texts:
        predicted = whole_log_probabilities(model, [*PROMPT, *text.token_ids[:-1]])[len(PROMPT) - 1 :]
        score = predicted[range(len(text.token_ids)), text.token_ids].sum().item()
        assert text.score == pytest.approx(score, abs=1e-9)


def test_special_tokens_are_never_generated():
    settings = GenerateSection(temperature=50.0, num_samples=64, max_new_tokens=12)
    tokens = [token.token_id for token in prompt_tokens(small_model(), [PROMPT], ROLES, settings)]
    assert set(tokens) == {2, *range(FIRST, 12)}


def test_the_same_seed_gives_the_same_text_and_another_seed_another():
    model = small_model()

    def drawn(seed: int) -> list[NewToken]:
        return list(prompt_tokens(model, [PROMPT], ROLES, GenerateSection(seed=seed, num_samples=4)))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    torch.manual_seed(123)  # the global state plays no part
    assert drawn(1) == drawn(1)


def test_greedy_samples_are_all_the_same():
    texts = collect(prompt_tokens(small_model(), [PROMPT], ROLES, GenerateSection(temperature=0, num_samples=3)), 3)
    assert texts[0].token_ids == texts[1].token_ids == texts[2].token_ids


def test_tokens_come_as_they_are_chosen():
    """After three tokens were taken, two have been read: nothing is computed ahead."""
    model, seen = small_model(), []
    model.embedding.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape[1]))
    tokens = prompt_tokens(model, [PROMPT], NOTHING_ENDS, GREEDY)
    assert seen == [3]
    for _ in range(3):
        next(tokens)
    assert seen == [3, 1, 1]
    assert not torch.is_inference_mode_enabled()


def test_a_row_that_ends_leaves_the_batch():
    """6 is followed by 7, 7 by the end, 8 by 8: row 1 ends at once, row 0 a step later, row 2 never."""
    table = torch.zeros(9, 9)
    for before, after in ((6, 7), (7, 2), (8, 8)):
        table[before, after] = 10.0
    reader = ScriptedReader(table, torch.tensor([6, 7, 8]), limit=4)
    tokens = list(decode(reader, ROLES, GREEDY, texts=[[]] * len(reader.logits)))
    assert [text.token_ids for text in collect(tokens, 3)] == [(7, 2), (2,), (8, 8, 8, 8)]
    assert reader.rows_read == [2, 1, 1]
    # ln p of the preferred one of nine tokens: 10 − ln(e¹⁰ + 8)
    assert tokens[0].log_probability == pytest.approx(10 - math.log(math.exp(10) + 8), abs=1e-6)


def test_the_last_token_is_not_read():
    """It may stand just outside the context, and nobody needs what would follow it."""
    reader = ScriptedReader(torch.eye(9), torch.tensor([8]), limit=3)
    assert len(list(decode(reader, ROLES, GREEDY, texts=[[]] * len(reader.logits)))) == 3
    assert reader.rows_read == [1, 1]


@pytest.mark.parametrize(
    ("prompt_length", "max_new_tokens", "expected", "finish"),
    [(3, 5, 5, "length"), (3, 14, 14, "length"), (3, 15, 14, "context"), (16, 9, 1, "context")],
)
def test_prompt_and_text_stay_within_the_context(prompt_length: int, max_new_tokens: int, expected: int, finish: str):
    """The context is 16: behind 3 tokens there is room for 13, and what is predicted behind the last is a token too."""
    settings = GenerateSection(temperature=0, max_new_tokens=max_new_tokens)
    tokens = list(prompt_tokens(small_model(), [[1] * prompt_length], NOTHING_ENDS, settings))
    assert len(tokens) == expected
    assert finish_of([token.token_id for token in tokens], NOTHING_ENDS, max_new_tokens) == finish


def test_a_translation_may_end_with_what_the_last_place_of_the_context_predicts():
    model = small_model(architecture="encoder-decoder")
    assert prefill(model, [[5]], ROLES, GenerateSection(max_new_tokens=99), rows=1).limits == [16]
    assert prefill(model, [[5]], ROLES, GenerateSection(max_new_tokens=9), rows=1).limits == [9]


def test_the_end_token_is_a_reason_of_its_own():
    assert finish_of([7, 2], ROLES, max_new_tokens=2) == "end"


@pytest.mark.parametrize("beam", [1, 3])
def test_any_of_several_ends_ends_a_text(beam: int):
    ends = replace(NOTHING_ENDS, more_ends=(6, 8))
    settings = GenerateSection(temperature=0, beam=beam, num_samples=beam, max_new_tokens=12)
    drawn = replace(settings, temperature=1.0, num_samples=8)
    if beam > 1:
        [found] = prompt_beams(small_model(2), [[1, 7]], ends, settings)
    else:
        found = collect(prompt_tokens(small_model(2), [[1, 7]], ends, drawn), 8)
    assert {6, 8} & {text.token_ids[-1] for text in found}
    for text in found:
        assert not {6, 8} & set(text.token_ids[:-1])
        assert finish_of(text.token_ids, ends, 12) == ("end" if text.token_ids[-1] in (6, 8) else "length")


@pytest.mark.parametrize("front", [None, (), (2,), (1, 9)], ids=str)
def test_what_was_put_in_front_of_a_prompt_is_not_held(front: tuple[int, ...] | None):
    """One token that ends and begins, as in GPT-2: it may come, however a text is not to repeat itself."""
    roles = TokenRoles(pad=0, bos=2, eos=2, text_start=front)
    before = list(roles.text_prefix or (2,))
    table = torch.zeros(10, 10)
    table[:, 2] = 9.0
    settings = GenerateSection(temperature=0, repetition_penalty=100.0, no_repeat_ngram=1, max_new_tokens=4)
    reader = ScriptedReader(table, torch.tensor([before[-1]]), limit=4)
    [text] = collect(decode(reader, roles, settings, texts=[before]), 1)
    assert text.token_ids == (2,)
    reader = ScriptedReader(table, torch.tensor([before[-1]]), limit=4)
    [[best]] = beam_search(reader, roles, replace(settings, beam=2), texts=[before])
    assert best.token_ids == (2,)
    reader = ScriptedReader(table, torch.tensor([5]), limit=1)
    [text] = collect(decode(reader, roles, settings, texts=[[*before, 2, 5]]), 1)
    assert text.token_ids != (2,), "what the prompt itself holds is held"


def test_a_prompt_without_room_for_a_token_is_refused():
    with pytest.raises(UsageError, match=r"has 17 tokens.*context of 16 .*shorten it to 16 tokens at most"):
        prompt_tokens(small_model(), [[1] * 17], ROLES, GREEDY)


def test_a_source_longer_than_the_context_is_refused():
    model = small_model(architecture="encoder-decoder")
    prompt_tokens(model, [[5] * 15], ROLES, GREEDY)
    with pytest.raises(UsageError, match=r"has 17 tokens.*context is 16; shorten it to 15 tokens"):
        prompt_tokens(model, [[5] * 16], ROLES, GREEDY)


VARIANTS = [
    {"positions": "rotary", "num_kv_heads": 1},
    {"positions": "learned"},
    {"positions": "alibi"},
    {"positions": "t5"},
    {"positions": "sinusoidal", "position_merge": "query_key"},
    {"sliding_window": 3},
    {"positions": "sinusoidal", "attention_score": "additive"},
]


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"num_samples": 2, "top_p": 0.9, "seed": 3}], ids=str)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_text_is_the_same_whatever_else_is_in_the_batch(variant: dict[str, Any], settings: dict[str, Any]):
    """Prompts of different length, each with random numbers of its own."""
    model, chosen = small_model(2, **variant), GenerateSection(max_new_tokens=12, **settings)
    prompts = [[1, 7, 9], [1], [1, 5, 6, 7, 8, 9, 10], [1, 8], [1]]
    copies = chosen.num_samples
    together = collect(prompt_tokens(model, prompts, ROLES, chosen), len(prompts) * copies)
    alone = [text for prompt in prompts for text in collect(prompt_tokens(model, [prompt], ROLES, chosen), copies)]
    assert [text.token_ids for text in together] == [text.token_ids for text in alone]
    assert [text.score for text in together] == pytest.approx([text.score for text in alone], abs=1e-9)
    if copies > 1:
        assert len({text.token_ids for text in together[:-2]}) > 4, "the test needs texts that differ"


def test_the_first_samples_stay_when_more_are_drawn():
    model = small_model()
    few, many = (GenerateSection(num_samples=number, seed=5, max_new_tokens=6) for number in (2, 5))
    first = collect(prompt_tokens(model, [PROMPT], ROLES, few), 2)
    assert [text.token_ids for text in first] == [
        text.token_ids for text in collect(prompt_tokens(model, [PROMPT], ROLES, many), 5)[:2]
    ]


@torch.inference_mode()
def test_a_text_that_slides_is_read_from_its_last_part():
    """Context 16: whenever 16 columns are full, the next token is predicted from the last 12 read anew, as positions 0
    to 11, with the newest among them."""
    model = small_model(4, positions="learned")
    chosen = GenerateSection(temperature=0.0, max_new_tokens=40, beyond_context="slide")
    [text] = collect(prompt_tokens(model, [PROMPT], NOTHING_ENDS, chosen), 1)
    read = list(PROMPT)
    for token, score in zip(text.token_ids, text.log_probabilities, strict=True):
        if len(read) == 17:
            read = read[-12:]
        predicted = whole_log_probabilities(model, read)[-1]
        assert predicted[token].item() == pytest.approx(score, abs=1e-9)
        read.append(token)
    assert len(text.token_ids) == 40


def test_a_prompt_longer_than_the_context_slides_as_well():
    model = small_model(4, positions="learned")
    chosen = GenerateSection(temperature=0.0, max_new_tokens=3, beyond_context="slide")
    long = [1, *range(5, 11)] * 4
    assert collect(prompt_tokens(model, [long], NOTHING_ENDS, chosen), 1) == collect(
        prompt_tokens(model, [long[-12:]], NOTHING_ENDS, chosen), 1
    )


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.get("positions") != "learned"], ids=str)
def test_a_text_goes_on_beyond_the_context_as_in_a_model_with_a_longer_one(variant: dict[str, Any]):
    chosen = GenerateSection(temperature=0.0, max_new_tokens=30, beyond_context="extrapolate")
    longer = small_model(2, **variant, max_seq_len=64)
    expected = collect(prompt_tokens(longer, [PROMPT, [1]], NOTHING_ENDS, chosen), 2)
    texts = collect(prompt_tokens(small_model(2, **variant), [PROMPT, [1]], NOTHING_ENDS, chosen), 2)
    assert [text.token_ids for text in texts] == [text.token_ids for text in expected]
    assert len(texts[0].token_ids) == 30


def test_learned_positions_do_not_go_on():
    chosen = GenerateSection(max_new_tokens=30, beyond_context="extrapolate")
    with pytest.raises(UsageError, match="learned its 16 positions one by one, and has none beyond them"):
        prompt_tokens(small_model(positions="learned"), [PROMPT], ROLES, chosen)


def test_a_text_begins_with_its_prefix_and_is_scored_with_it():
    model = small_model(3, architecture="encoder-decoder")
    [text] = collect(prompt_tokens(model, [[5, 6]], ROLES, GREEDY, prefix=[9, 10]), 1)
    assert text.token_ids[:2] == (9, 10)
    predicted = whole_log_probabilities(model, [ROLES.bos, *text.token_ids[:-1]], [5, 6, ROLES.eos])
    score = predicted[range(len(text.token_ids)), text.token_ids].sum().item()
    assert text.score == pytest.approx(score, abs=1e-9)


def test_a_text_ends_where_it_is_told_to():
    model = small_model()
    whole = collect(prompt_tokens(model, [PROMPT], NOTHING_ENDS, GREEDY), 1)[0].token_ids
    [text] = collect(prompt_tokens(model, [PROMPT], NOTHING_ENDS, GREEDY, ends=lambda new: new[-1] == whole[2]), 1)
    assert text.token_ids == whole[: whole.index(whole[2]) + 1]
    assert finish_of(text.token_ids, NOTHING_ENDS, 8, stopped=True) == "stop"


def test_options_are_the_likeliest_tokens_with_their_chances():
    """Probabilities are the model's own; in the draw, special tokens have no chance, and top-k leaves two."""
    model = small_model()
    chosen = GenerateSection(top_k=2, max_new_tokens=4, seed=1)
    steps = list[TraceStep]()

    def observe(stages: DecodingStages) -> None:
        steps.append(trace_step(stages, NOTHING_ENDS, lambda ids: [str(token) for token in ids], options=5))

    tokens = list(prompt_tokens(model, [PROMPT], NOTHING_ENDS, chosen, observe=observe))
    assert [step.token_id for step in steps] == [token.token_id for token in tokens]
    ids = list(PROMPT)
    for token in steps:
        predicted = whole_log_probabilities(model, ids)[-1].exp()
        assert token.token_id in [option.token_id for option in token.options]
        for option in token.options:
            assert option.probability == pytest.approx(predicted[option.token_id].item(), abs=1e-9)
        assert [o.probability for o in token.options] == sorted((o.probability for o in token.options), reverse=True)
        likely = sorted(set(range(12)) - {0, 1, 3, 4}, key=lambda one: -predicted[one])[:2]
        assert {o.token_id for o in token.options if o.chance > 0} <= set(likely)
        ids.append(token.token_id)


def test_a_token_that_is_none_of_the_likeliest_takes_the_last_place():
    model, steps = small_model(), list[TraceStep]()

    def observe(stages: DecodingStages) -> None:
        steps.append(trace_step(stages, NOTHING_ENDS, lambda ids: [str(token) for token in ids], options=2))

    settings = GenerateSection(temperature=9, max_new_tokens=8, seed=1)
    tokens = [one.token_id for one in prompt_tokens(model, [PROMPT], NOTHING_ENDS, settings, observe=observe)]
    beside = 0
    for number, step in enumerate(steps):
        likeliest = whole_log_probabilities(model, [*PROMPT, *tokens[:number]])[-1].topk(2).indices.tolist()
        expected = likeliest if tokens[number] in likeliest else [likeliest[0], tokens[number]]
        assert [option.token_id for option in step.options] == expected
        beside += tokens[number] not in likeliest
    assert beside > 2


def test_a_model_that_went_beyond_its_context_can_still_be_trained_and_never_shrinks():
    """A longer text is in the making when a shorter one is read, and tables made for generation take gradients."""
    model = small_model(2, positions="rotary")
    chosen = GenerateSection(temperature=0.0, max_new_tokens=60, beyond_context="extrapolate")
    first = prompt_tokens(model, [PROMPT], NOTHING_ENDS, chosen)
    begun = [next(first) for _ in range(40)]
    collect(prompt_tokens(model, [PROMPT], NOTHING_ENDS, GenerateSection(**{**vars(chosen), "max_new_tokens": 15})), 1)
    assert len(begun) + len(list(first)) == 60
    model(torch.tensor([PROMPT])).sum().backward()
