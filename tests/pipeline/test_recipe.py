"""Whole recipes, from text to attention, and the limits they are held to."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import ARCHITECTURES, Events, never, stop_after, tiny_recipe
from tfcli.errors import UsageError
from tfcli.evaluation import bleu_tokenization
from tfcli.files import digest, read_json, write_json
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.positions import PositionsRecord
from tfcli.pipeline.recipe import check_results, run_recipe
from tfcli.recipe.recipe import CheckSection
from tfcli.records.evaluation import Scores
from tfcli.records.generation import Filled, Generated
from tfcli.records.runs import CheckResult, Evaluated, StageStarted, TrainingFinished

SHOWN: dict[str, dict[str, Any]] = {
    "decoder": {
        "generate": {"prompts": ["the ", ""], "max_new_tokens": 5},
        "inspect": {"attention": "a cat"},
    },
    "encoder": {
        "generate": {"prompts": ["the c<mask>t"], "top_k": 3},
        "inspect": {"attention": "a <mask>at"},
    },
    "encoder-decoder": {
        "generate": {"prompts": ["o gato dorme ."], "max_new_tokens": 5},
        "inspect": {"attention": "o gato", "target": "the cat"},
    },
}
KINDS = {"decoder": ["decoder_self"], "encoder": ["encoder_self"]}
KINDS["encoder-decoder"] = ["cross"]  # of three kinds, the one that shows the crossing


def run(recipe: Any, out: Path, stop: Any = never) -> tuple[Events, list[CheckResult]]:
    events = Events()
    return events, run_recipe(recipe, out, events.append, stop)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_recipe_runs_from_end_to_end(tmp_path: Path, architecture: str):
    shown = SHOWN[architecture]
    limits = {"inspect": {**shown["inspect"], "positions": 6}, "check": {"max_loss": 100, "max_minutes": 60}}
    events, checks = run(tiny_recipe(architecture, shown, limits), tmp_path / "run")
    stages = [event.stage for event in events.of(StageStarted)]
    assert stages == ["tokenizer", "data", "training", "evaluation", "inspection", "generation", "inspection"]
    made = [event for event in events if isinstance(event, Scores | list | Filled | AttentionRecord | PositionsRecord)]
    samples = len(shown["generate"]["prompts"])
    assert isinstance(made[0], Scores)
    assert isinstance(made[1], PositionsRecord)
    assert made[1].length == 6
    assert [type(one) for one in made[2 + samples :]] == [AttentionRecord] * len(KINDS[architecture]), "they stand last"
    assert [one.kind for one in events.of(AttentionRecord)] == KINDS[architecture]
    for sample, prompt in zip(made[2:], shown["generate"]["prompts"], strict=False):
        if architecture == "encoder":
            assert isinstance(sample, Filled)
            assert (sample.prompt, len(sample.predictions[0])) == (prompt, 3)
        else:
            assert isinstance(sample[0], Generated)
            assert (sample[0].prompt, len(sample[0].token_ids) <= 5) == (prompt, True)
    [finished] = events.of(TrainingFinished)
    assert made[0].loss == pytest.approx(finished.best_loss, abs=1e-5), "the best weights are scored, on the same part"
    assert [(check.name, check.passed) for check in checks] == [("max_loss", True), ("max_minutes", True)]
    assert checks[0].measured == made[0].loss
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_the_layer_and_the_head_that_are_asked_for_are_looked_at_first(tmp_path: Path):
    recipe = tiny_recipe("decoder", {"inspect": {"attention": "a cat", "head": 1}, "train": {"steps": 2}})
    for head in (1, 0):
        asked = replace(recipe, inspect=replace(recipe.inspect, layer=0, head=head))
        events, _ = run(asked, tmp_path / "run")
        assert [record.focus for record in events.of(AttentionRecord)] == [(0, head)]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"layer": 1}, "There is no layer 1: the model has 1; choose 0 to 0"),
        ({"head": 2}, 'There is no head 0.2: layer 0 has heads 0 to 1; write for example inspect.head = "0.1"'),
        ({"positions": 33}, "inspect.positions = 33, and the model learns 32"),
    ],
    ids=str,
)
def test_what_the_model_will_not_have_is_refused_before_any_work(tmp_path: Path, wanted: dict[str, int], words: str):
    events = Events()
    with pytest.raises(UsageError, match=words):
        run_recipe(tiny_recipe("encoder", {"inspect": wanted}), tmp_path / "run", events.append, never)
    assert not events
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_was_run_is_only_shown_again(tmp_path: Path):
    first, _ = run(tiny_recipe(), tmp_path / "run")
    events, _ = run(tiny_recipe(), tmp_path / "run")
    stages = [(event.stage, event.reused) for event in events.of(StageStarted)]
    assert stages == [("training", True), ("evaluation", True), ("generation", False)]
    assert not events.of(Evaluated)
    assert events.of(Scores) == first.of(Scores)
    (tmp_path / "run").rename(tmp_path / "moved")
    again, _ = run(tiny_recipe(), tmp_path / "moved")
    assert again.of(Scores) == [replace(first.of(Scores)[0], run=str(tmp_path / "moved"))]


@pytest.mark.parametrize("change", ["damaged scores", "other weights"])
def test_figures_that_are_not_those_of_the_weights_are_measured_again(tmp_path: Path, change: str):
    first, _ = run(tiny_recipe(), tmp_path / "run")
    [kept], file = first.of(Scores), tmp_path / "run" / "scores.json"
    values = read_json(file)
    if change == "damaged scores":
        values["scores"]["loss"] = "low"
    else:
        values["of"], values["scores"]["loss"] = digest("other weights"), 0.0
    write_json(file, values)
    events, _ = run(tiny_recipe(), tmp_path / "run")
    assert [event.reused for event in events.of(StageStarted)] == [True, False, False]
    assert events.of(Scores) == [kept]
    assert read_json(file)["scores"]["loss"] == kept.loss


def test_a_recipe_that_is_interrupted_ends_there(tmp_path: Path):
    recipe = tiny_recipe("decoder", {"check": {"max_loss": 1}})
    events, checks = run(recipe, tmp_path / "run", stop_after(3))
    assert checks == []
    assert events.of(TrainingFinished)[0].reason == "interrupted"
    assert isinstance(events[-1], TrainingFinished)


def test_nothing_more_is_shown_than_is_asked_for(tmp_path: Path):
    """A decoder continues the empty prompt; the others have no prompt of their own."""
    for architecture, expected in (("decoder", ["evaluation", "generation"]), ("encoder", ["evaluation"])):
        events, checks = run(tiny_recipe(architecture, {"generate": {"max_new_tokens": 3}}), tmp_path / architecture)
        assert [event.stage for event in events.of(StageStarted)][3:] == expected
        assert checks == []


SCORES = Scores("run", "seq2seq", (), 2.0, math.exp(2), 1.0, 10, 1, 0.5, bleu=30.0, exact_match=0.25)


@pytest.mark.parametrize(
    ("name", "limit", "measured", "passed"),
    [
        ("max_loss", 2.0, 2.0, True),
        ("max_loss", 1.999, 2.0, False),
        ("min_accuracy", 0.5, 0.5, True),
        ("min_accuracy", 0.51, 0.5, False),
        ("min_bleu", 30.0, 30.0, True),
        ("min_bleu", 30.1, 30.0, False),
        ("min_exact_match", 0.2, 0.25, True),
        ("min_exact_match", 0.3, 0.25, False),
        ("max_minutes", 4.0, 3.0, True),
        ("max_minutes", 2.9, 3.0, False),
    ],
)
def test_a_limit_is_compared_with_its_figure(name: str, limit: float, measured: float, passed: bool):
    results = list(check_results(CheckSection(**{name: limit}), SCORES, 3.0))
    assert results == [CheckResult(name, limit, measured, passed)]


def test_a_figure_that_is_not_there_passes_no_limit():
    """A decoder has no BLEU: a limit on it is not met, rather than passed over."""
    without = Scores("run", "clm", (), 2.0, math.exp(2), 1.0, 10, 1, 0.5)
    results = list(check_results(CheckSection(min_bleu=1.0), without, 3.0))
    assert results == [CheckResult("min_bleu", 1.0, None, False)]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_passes_no_limit(loss: float):
    broken = Scores("run", "clm", (), loss, loss, loss, 10, 1, 0.5)
    assert not next(check_results(CheckSection(max_loss=1e9), broken, 1.0)).passed


def test_without_limits_nothing_is_compared():
    assert list(check_results(CheckSection(), SCORES, 3.0)) == []


def test_limits_come_in_the_order_of_the_section():
    check = CheckSection(max_minutes=5, min_bleu=1, max_loss=3)
    assert [result.name for result in check_results(check, SCORES, 1.0)] == [
        "max_loss",
        "min_bleu",
        "max_minutes",
    ]


def test_a_prompt_without_a_mask_is_refused_before_training(tmp_path: Path):
    recipe = tiny_recipe("encoder", {"generate": {"prompts": ["A <mask> day", "A fine day"]}})
    with pytest.raises(UsageError, match="'A fine day' has no <mask>"):
        run_recipe(recipe, tmp_path / "run", lambda event: None, lambda: False)
    assert not (tmp_path / "run").exists()


def test_the_limit_on_bleu_has_the_recipe_s_tokenization(tmp_path: Path):
    """A run that was trained before there was such a key is scored as the recipe says, and its own is untouched."""
    settings = {"check": {"min_bleu": 1.0}, "train": {"steps": 2}}
    _, [before] = run(tiny_recipe("encoder-decoder", settings), tmp_path / "run")
    recorded = (tmp_path / "run" / "recipe.toml").read_text()
    assert "[evaluate]" not in recorded

    changed = {"evaluate": {"bleu_tokenize": "char"}}
    events, [check] = run(tiny_recipe("encoder-decoder", settings, changed), tmp_path / "run")
    [scores] = events.of(Scores)
    assert (check.name, check.measured) == ("min_bleu", scores.bleu)
    assert scores.bleu_tokenize == "char" and "tok:char" in (scores.signature or "")
    assert check.measured != before.measured
    assert [event.reused for event in events.of(StageStarted)][:2] == [True, False], "scored, and not trained again"
    assert (tmp_path / "run" / "recipe.toml").read_text() == recorded


def test_a_tokenization_that_is_not_installed_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bleu_tokenization, "find_spec", lambda name: None)
    recipe = tiny_recipe("encoder-decoder", {"evaluate": {"bleu_tokenize": "ja-mecab"}})
    with pytest.raises(UsageError, match="'ja-mecab' needs a package that is not installed"):
        run(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_scores_of_an_older_version_are_measured_again(tmp_path: Path):
    """They had other intervals."""
    first, _ = run(tiny_recipe(), tmp_path / "run")
    file = tmp_path / "run" / "scores.json"
    values = read_json(file)
    values["format_version"] = 1
    write_json(file, values)
    events, _ = run(tiny_recipe(), tmp_path / "run")
    assert [event.reused for event in events.of(StageStarted)] == [True, False, False]
    assert events.of(Scores) == first.of(Scores)
