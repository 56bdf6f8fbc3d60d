"""Decoding step by step: the toy by hand, and of a run what generation itself draws."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.support.consoles import printed
from tfcli.draw.tables import to_json
from tfcli.errors import UsageError
from tfcli.generation.generate import generate, trace
from tfcli.generation.sampling import FILTERS
from tfcli.inspection.explain import DecodingCandidate
from tfcli.inspection.explain.decoding import explain_decoding, explain_toy_decoding, run_settings
from tfcli.inspection.explain.decoding_view import DecodingView, decoding_table
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.generation import Generated
from tfcli.runs.load import load_run

TOY = GenerateSection(temperature=0.5, top_k=3, top_p=0.9, beam=2, max_new_tokens=4)


def by_token(candidates: tuple[DecodingCandidate, ...]) -> dict[str, DecodingCandidate]:
    return {one.token: one for one in candidates}


def test_every_stage_of_the_first_step_by_hand():
    """8, 4, 2, 1, 1 sixteenths; at τ = ½ squared: 64, 16, 4, 1, 1 of 86. The three best have 84 of them, and the two
    best 80 of 84, more than 0.9: the draw is between 64 and 16 of 80."""
    step = explain_toy_decoding(TOY).steps[0]
    found = by_token(step.candidates)
    travel, stay, work, rest = (found[f" {word}"] for word in ("travel", "stay", "work", "rest"))
    assert [one.probability for one in (travel, stay, work, rest)] == pytest.approx([8 / 16, 4 / 16, 2 / 16, 1 / 16])
    assert [one.tempered for one in (travel, stay, work, rest)] == pytest.approx([64 / 86, 16 / 86, 4 / 86, 1 / 86])
    assert [one.after["after_top_k"] for one in (travel, stay, work, rest)] == pytest.approx(
        [64 / 84, 16 / 84, 4 / 84, 0]
    )
    assert [one.after["after_top_p"] for one in (travel, stay, work, rest)] == pytest.approx([0.8, 0.2, 0, 0])
    assert (travel.logit, stay.scaled) == (pytest.approx(math.log(8)), pytest.approx(-math.log(2) / 0.5))
    assert (stay.begin, stay.end) == (pytest.approx(0.8), pytest.approx(1.0))
    assert (step.kept["kept_top_k"], step.kept["kept_top_p"], step.others) == (3, 2, 0)


def test_greedy_is_wrong_on_the_toy_by_hand():
    record = explain_toy_decoding(TOY)
    assert record.greedy.tokens == (" travel", " far", "</s>")
    assert math.exp(record.greedy.log_probability) == pytest.approx(1 / 2 * 1 / 4)
    assert record.beam.tokens == (" stay", " home", "</s>")
    assert math.exp(record.beam.log_probability) == pytest.approx(1 / 4 * 7 / 8)
    assert record.tree.length_penalty == 0, "texts are ranked by their probability alone"
    assert [node.token for node in record.tree.nodes if node.chosen] == [" stay", " home", "</s>"]


def test_at_temperature_0_the_best_is_taken_without_a_draw():
    record = explain_toy_decoding(GenerateSection(temperature=0, beam=2, max_new_tokens=3))
    assert tuple(step.token for step in record.steps) == record.greedy.tokens
    assert [step.uniform for step in record.steps] == [None] * 3
    assert record.steps[0].candidates[0].scaled is None


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 5), st.integers(0, 6), st.floats(0.05, 1), st.integers(0, 1000))
def test_the_draw_lies_where_its_number_does(temperature: float, top_k: int, top_p: float, seed: int):
    section = GenerateSection(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, beam=2, max_new_tokens=4)
    for step in explain_toy_decoding(section).steps:
        held = sorted((one for one in step.candidates if one.chance > 0), key=lambda one: one.begin)
        assert sum(one.chance for one in held) == pytest.approx(1)
        np.testing.assert_allclose([one.begin for one in held[1:]], [one.end for one in held[:-1]], atol=1e-6)
        chosen = by_token(step.candidates)[step.token]
        assert step.uniform is not None
        assert chosen.begin - 1e-6 <= step.uniform <= chosen.end + 1e-6
        assert chosen.chance == pytest.approx(chosen.after["after_top_p"])


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_a_runs_tokens_are_those_that_generation_draws(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    section = GenerateSection(temperature=0.9, top_k=20, top_p=0.95, seed=3, max_new_tokens=6, beam=3)
    prompt = "the cat"
    record = explain_decoding(run, prompt, section)
    drawn = GenerateSection(temperature=0.9, top_k=20, top_p=0.95, seed=3, max_new_tokens=6)
    [text] = generate(run, prompt, drawn, sample=True)
    assert tuple(step.token_id for step in record.steps) == text.token_ids
    for step, log_probability in zip(record.steps, text.log_probabilities, strict=True):
        chosen = next(one for one in step.candidates if one.token_id == step.token_id)
        assert chosen.probability == pytest.approx(math.exp(log_probability), rel=1e-4)
    assert record.beam.log_probability >= record.greedy.log_probability - 1e-5


def test_an_encoder_writes_nothing(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="An encoder writes no text"):
        explain_decoding(load_run(trained("encoder")), "a", TOY)


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_what_a_runs_recipe_says_of_generation_holds(trained: Callable[[str], Path], architecture: str):
    """Every setting that changes what is drawn; what is given on top of them is given to both."""
    run = load_run(trained(architecture))
    own = GenerateSection(
        temperature=1.5, top_k=30, top_p=0.98, min_p=0.3, repetition_penalty=1.7, no_repeat_ngram=2, num_samples=3
    )
    run = replace(run, recipe=replace(run.recipe, generate=own))
    given = {"temperature": 2.0, "seed": 5, "max_new_tokens": 12}
    settings = run_settings(run, given)
    record = explain_decoding(run, "the cat", settings)
    [text, *_] = generate(run, "the cat", replace(own, temperature=2.0, seed=5, max_new_tokens=12), sample=True)
    assert isinstance(text, Generated)
    assert tuple(step.token_id for step in record.steps) == text.token_ids
    plain = explain_decoding(run, "the cat", replace(settings, repetition_penalty=1.0, no_repeat_ngram=0, min_p=0.0))
    assert plain.steps != record.steps
    assert any(one.adjusted != one.logit for step in record.steps for one in step.candidates)
    assert all(step.kept["kept_min_p"] <= step.kept["kept_top_p"] <= step.kept["kept_top_k"] for step in record.steps)
    assert any(step.kept["kept_min_p"] < step.kept["kept_top_p"] for step in record.steps)


def test_a_translator_is_greedy_unless_a_temperature_is_given(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    assert run_settings(run, {}).temperature == 0
    assert run_settings(run, {"temperature": 0.7}).temperature == 0.7
    assert run_settings(load_run(trained("decoder")), {}).temperature == 1


def test_a_prefix_is_not_a_step_and_a_stop_text_is_the_last(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    free = explain_decoding(run, "o livro", run_settings(run, {"temperature": 3.0, "max_new_tokens": 6}))
    begun = run_settings(run, {"temperature": 3.0, "max_new_tokens": 6, "prefix": "the"})
    record = explain_decoding(run, "o livro", begun)
    [text] = generate(run, "o livro", replace(begun, beam=1), sample=True)
    assert isinstance(text, Generated)
    assert record.steps[0].before == tuple(run.tokenizer.labels(run.tokenizer.encode("the")))
    assert tuple(step.token_id for step in record.steps) == text.token_ids[len(record.steps[0].before) :]
    stop = free.steps[1].token.strip()
    stopped = explain_decoding(
        run, "o livro", run_settings(run, {"temperature": 3.0, "max_new_tokens": 6, "stop": [stop]})
    )
    assert len(stopped.steps) == 2


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_new_filter_is_in_what_is_explained_by_itself(
    trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, temperature: float
):
    """It rules out ids that three divides; generation and every picture of it know it from the one place."""
    run = load_run(trained("decoder"))
    given = {"temperature": temperature, "max_new_tokens": 8, "seed": 3}
    free = explain_decoding(run, "the cat", run_settings(run, given))

    def odd_one_out(logits: Tensor, settings: GenerateSection) -> Tensor:
        return logits.masked_fill(torch.arange(logits.shape[-1]) % 3 == 0, -torch.inf)

    monkeypatch.setitem(FILTERS, "odd_one_out", odd_one_out)
    record = explain_decoding(run, "the cat", run_settings(run, given))
    [text] = generate(run, "the cat", replace(run.recipe.generate, **given), sample=temperature > 0)
    assert isinstance(text, Generated)
    assert tuple(step.token_id for step in record.steps) == text.token_ids
    candidates = [one for step in record.steps for one in step.candidates]
    values = to_json(record)["steps"][0]
    assert "after_odd_one_out" in values["candidates"][0]
    assert "after_odd_one_out" in decoding_table(record).columns
    assert values["kept_odd_one_out"] == record.steps[0].kept["kept_odd_one_out"]
    if temperature == 0:
        assert record.greedy == free.greedy, "nothing is drawn, and nothing filtered"
        return
    assert any(one.token_id % 3 == 0 for one in candidates), "the test needs a token that is ruled out"
    for one in candidates:
        assert (one.after["after_odd_one_out"] == 0) == (one.token_id % 3 == 0 or one.after["after_min_p"] == 0)
        assert one.chance == pytest.approx(one.after["after_odd_one_out"])
    assert record.steps[0].kept["kept_odd_one_out"] < record.steps[0].kept["kept_min_p"]
    assert "odd-one-out" in printed(DecodingView(record), 140)
    assert all(
        option.chance == 0
        for step in trace(run, "the cat", replace(run.recipe.generate, **given)).steps
        for option in step.options
        if option.token_id % 3 == 0
    )
