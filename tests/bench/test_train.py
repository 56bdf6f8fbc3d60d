"""One benchmark of a moment: its figures follow from the recipe, and its settings are refused in words."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.bench import TINY
from tfcli.bench import MatrixPeak, machine, train
from tfcli.bench.measure import Taken
from tfcli.bench.train import WARMUP, bench_training
from tfcli.errors import UsageError
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe


def tiny(*settings: Any) -> Recipe:
    return build_recipe(*settings[:1], TINY, *settings[1:])


@pytest.mark.usefixtures("here")
def test_the_figures_of_a_recipe_alone():
    """D 16, F 64, Vocab 24, one layer, 2 sequences of 8, two micro-batches: 32 tokens a step. A token takes
    8 · 16² + 4 · 16 · 64 + 2 · 16 · 24 = 6,912 in products with weights, and a sequence 4 · 16 · 36 = 2,304 where
    its tokens meet: (32 · 6,912 + 4 · 2,304) · 3 = 691,200 forward and backward."""
    told: list[str] = []
    recipe = tiny({"model": {"activation": "relu"}, "train": {"grad_accumulation": 2}})
    speed = bench_training(recipe, 4, tell=told.append)
    assert (speed.tokens_per_step, speed.flops_per_step) == (32, 691_200)
    assert (speed.length, speed.sequences, speed.micro_batches, speed.steps) == (8, 2, 2, 4)
    assert f"step {WARMUP + 4} of {WARMUP + 4}" in told
    (side,) = speed.sides
    assert (side.name, side.precision, side.ratio, side.memory) == ("tfcli", "float32", None, 123_000_000)
    assert side.step_seconds.p10 <= side.step_seconds.p50 <= side.step_seconds.p90
    assert side.tokens_per_second == pytest.approx(32 / side.step_seconds.p50)
    peak = next(peak for peak in speed.peaks if peak.precision == "float32")
    assert side.peak_share == pytest.approx(691_200 / side.step_seconds.p50 / peak.flops_per_second)
    assert speed.machine.threads == 1


@pytest.mark.usefixtures("here")
def test_only_labelled_positions_count_in_the_head_of_an_encoder():
    """15 % of 8 is one position a sequence. Against all 8 that saves 14 positions · 2 · 16 · (16 + 24) · 3."""
    recipe = tiny(preset("bert"), {"train": {"grad_accumulation": 1}})
    labelled = bench_training(recipe, 1)
    everywhere = train.training_flops(recipe.model, 2, 8)
    assert everywhere - labelled.flops_per_step == 14 * 2 * 16 * (16 + 24) * 3


@pytest.mark.usefixtures("here")
def test_against_transformers_in_both_precisions():
    pytest.importorskip("transformers")
    speed = bench_training(tiny(preset("gpt2"), {"train": {"precision": "bfloat16"}}), 3, transformers=True)
    assert [(side.name, side.model, side.precision) for side in speed.sides] == [
        ("tfcli", "Decoder", "bfloat16"),
        ("transformers float32", "GPT2LMHeadModel", "float32"),
        ("transformers bfloat16", "GPT2LMHeadModel", "bfloat16"),
    ]
    assert len({side.parameters for side in speed.sides}) == 1
    ours, *others = speed.sides
    for side in others:
        assert side.ratio == pytest.approx(side.step_seconds.p50 / ours.step_seconds.p50)
        assert side.ratio_p10 is not None and side.ratio_p90 is not None
        assert side.ratio_p10 <= side.ratio_p90
    assert speed.differences == ()


def test_a_share_is_of_the_peak_in_the_side_s_own_precision():
    peaks = [MatrixPeak("float32", 1e6, 1, 1, 1), MatrixPeak("bfloat16", 4e6, 1, 1, 1)]
    about = {"model": "Decoder", "precision": "bfloat16", "parameters": 1}
    process: Any = SimpleNamespace(name="tfcli", about=about)
    side = train._side(Taken(process, [2.0, 1.0, 4.0], {"memory": 1}), 16, 345_600, peaks)
    assert (side.tokens_per_second, side.peak_share) == (8.0, 345_600 / 2.0 / 4e6)


def test_more_threads_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "cores", lambda: 2)
    with pytest.raises(UsageError, match=r"train\.threads = 3 is more than the 2 processor cores there are"):
        bench_training(tiny({}, {"train": {"threads": 3}}), 1)


def test_a_model_without_a_head_is_refused():
    with pytest.raises(UsageError, match="without a head"):
        bench_training(tiny({"model": {"architecture": "encoder", "head": "none"}}), 1)


def test_a_model_that_cannot_fit_is_refused_before_any_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(train, "SideProcess", lambda *_: pytest.fail("a process was started"))
    recipe = build_recipe(preset("llama"), {"model": {"vocab_size": 32_000}, "train": {"threads": 1}})
    huge = replace(recipe, model=replace(recipe.model, d_model=2**17, d_ff=2**19))
    with pytest.raises(UsageError, match="whose training takes"):
        bench_training(huge, 1)
