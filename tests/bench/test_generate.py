"""A benchmark of generation of a moment: its figures follow from the recipe, its settings are refused in words."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.bench import TINY
from tfcli.bench import generate, machine
from tfcli.bench.generate import WARMUP, bench_generation
from tfcli.bench.measure import Taken
from tfcli.bench.work import GenerationWork
from tfcli.errors import UsageError
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe

WORK = GenerationWork(batch=1, prompt_tokens=3, new_tokens=5, beam=1, seed=0)


def tiny(*settings: Any) -> Recipe:
    return build_recipe(*settings[:1], TINY, *settings[1:])


@pytest.mark.usefixtures("here")
def test_the_figures_of_a_recipe_alone():
    """D 16, F 64, Vocab 24, one layer: a token is multiplied with 4 · 16² + 2 · 16 · 64 + 16 · 24 = 3,456 numbers."""
    told: list[str] = []
    speed = bench_generation(tiny({"model": {"activation": "relu"}}), WORK, 3, tell=told.append)
    assert (speed.weight_bytes, speed.prompt_tokens, speed.new_tokens, speed.batch, speed.beam) == (
        13_824,
        3.0,
        5,
        1,
        1,
    )
    assert f"round {WARMUP + 3} of {WARMUP + 3}" in told
    (side,) = speed.sides
    assert (side.name, side.model, side.precision, side.memory) == ("tfcli", "Decoder", "float32", 123_000_000)
    assert side.tokens_per_second == pytest.approx(5 / side.seconds.p50)
    assert side.token_seconds is not None and side.bandwidth_share is not None
    assert side.bandwidth_share == pytest.approx(13_824 / speed.read_bandwidth / side.token_seconds.p50)
    assert (side.ratio, speed.same_ids, speed.differences) == (None, None, ())


def test_a_token_takes_what_is_left_of_the_whole_when_the_first_is_there():
    """Rounds of 2.5, 1.3 and 4.5 s with prefills of 0.5, 0.3 and 0.5: four tokens later 0.5, 0.25 and 1 s each. Weights
    of four bytes that can be read in 4 · 0.05 s are 40 % of the median. The first answer warms up."""
    rounds = [(99.0, 9.0), (2.5, 0.5), (1.3, 0.3), (4.5, 0.5)]
    answers = [{"seconds": seconds, "prefill": prefill, "ids": []} for seconds, prefill in rounds]
    about = {"model": "Decoder", "precision": "float32", "parameters": 7}
    kept: Any = SimpleNamespace(name="tfcli", about=about, answers=answers)
    taken = Taken(kept, [2.5, 1.3, 4.5], {"memory": 1})
    side = generate._side(taken, WORK, reading=0.05)
    assert side.token_seconds is not None
    assert (side.token_seconds.p50, side.prefill_seconds.p50, side.bandwidth_share) == (0.5, 0.5, 0.4)
    assert side.tokens_per_second == 2.0
    several = generate._side(taken, replace(WORK, batch=4), reading=0.05)
    assert (several.bandwidth_share, several.tokens_per_second) == (None, 8.0)


def test_ids_are_compared_text_by_text():
    """Of (1 2 3) and (4 5), (1 9 3) and (4 5 6) have four of six places alike."""
    sides: Any = [SimpleNamespace(answers=[{"ids": ids}]) for ids in ([[1, 2, 3], [4, 5]], [[1, 9, 3], [4, 5, 6]])]
    assert generate._same_ids(sides) == pytest.approx(4 / 6)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("name", "model"), [("gpt2", "GPT2LMHeadModel"), ("modern", "GraniteForCausalLM")])
def test_against_transformers_with_the_same_weights(name: str, model: str):
    pytest.importorskip("transformers")
    speed = bench_generation(tiny(preset(name)), replace(WORK, batch=2), 2, transformers=True)
    ours, other = speed.sides
    assert (other.name, other.model, other.precision) == ("transformers", model, ours.precision)
    assert other.ratio == pytest.approx(other.seconds.p50 / ours.seconds.p50)
    assert speed.same_ids == 1.0
    assert speed.differences == ()


@pytest.mark.usefixtures("here")
def test_what_transformers_lacks_is_compared_at_its_sizes():
    pytest.importorskip("transformers")
    speed = bench_generation(tiny({"model": {"positions": "alibi"}}), WORK, 1, transformers=True)
    assert speed.sides[1].model == "GPT2LMHeadModel"
    assert speed.same_ids is None
    assert "positions" in {one.setting for one in speed.differences}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        ("decoder", {"new_tokens": 20}),
        ("decoder", {"prompt_tokens": 20}),
        ("encoder-decoder", {"new_tokens": 20}),
        ("encoder-decoder", {"prompt_tokens": 20, "beam": 2}),
    ],
)
def test_the_context_is_as_long_as_the_work_needs(architecture: str, changes: dict[str, int]):
    """Beyond the 8 tokens of the recipe; positions that are learned have no row more than there are."""
    recipe = tiny({"model": {"architecture": architecture, "positions": "learned"}})
    (side,) = bench_generation(recipe, replace(WORK, **changes), 1).sides
    assert side.tokens_per_second > 0


def test_an_encoder_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(generate, "SideProcess", lambda *_: pytest.fail("a process was started"))
    with pytest.raises(UsageError, match="An encoder generates no text"):
        bench_generation(tiny({"model": {"architecture": "encoder"}}), WORK, 1)


def test_more_threads_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "cores", lambda: 2)
    with pytest.raises(UsageError, match=r"train\.threads = 3 is more than the 2 processor cores there are"):
        bench_generation(tiny({}, {"train": {"threads": 3}}), WORK, 1)


def test_a_model_that_cannot_fit_is_refused_before_any_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(generate, "SideProcess", lambda *_: pytest.fail("a process was started"))
    recipe = build_recipe(
        preset("llama"), {"model": {"vocab_size": 32_000, "num_layers": 400}, "train": {"threads": 1}}
    )
    with pytest.raises(UsageError, match="whose weights take"):
        bench_generation(recipe, WORK, 1)
