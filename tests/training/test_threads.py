"""The CPU threads of a training: measured once, when the run begins, and recorded."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.support.runs import tiny_recipe, train_tiny
from tfcli.models.device import measure_layers
from tfcli.recipe.loading import load_recorded
from tfcli.threads import ThreadChooser
from tfcli.training import job, precision


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("faster", [1, 3])
def test_layers_are_measured_until_a_number_is_chosen(
    architecture: str, faster: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock on which layers take a second with the slower number of threads, and 0.1 with the faster."""
    now = [0.0]
    threads = [3]

    class Chooser(ThreadChooser):
        def __init__(self, most: int, set_threads: object, probe: object) -> None:
            super().__init__(most, lambda number: threads.__setitem__(0, number), lambda: None, lambda: now[0])

        def after_layer(self) -> None:
            now[0] += 0.1 if threads[0] == faster else 1.0
            super().after_layer()

    monkeypatch.setattr(precision, "ThreadChooser", Chooser)
    recipe = tiny_recipe(architecture)
    recipe = replace(recipe, model=replace(recipe.model, vocab_size=20))
    assert precision.measure_threads(recipe, 3, 2) == faster


def test_a_model_computes_the_same_while_it_is_measured() -> None:
    recipe = tiny_recipe("decoder")
    model = precision.build_model(replace(recipe.model, vocab_size=20), 0).eval()
    ids = torch.arange(8)[None]
    expected = model(ids)
    chooser = ThreadChooser(2, lambda number: None, lambda: None)
    handles = measure_layers(model, chooser)
    for _ in range(9):
        assert torch.equal(model(ids), expected)
    assert chooser.is_decided
    for handle in handles:
        handle.remove()
    assert not any(layer._forward_hooks for layer in model.transformer_layers)


def test_the_number_is_measured_once_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(recipe: object, most: int, sequences: int) -> int:
        asked.append(most)
        return 1

    monkeypatch.setattr(job, "measure_threads", measured)
    monkeypatch.setattr(job, "choose_threads", lambda wanted, usual: wanted or 2)
    open_recipe = tiny_recipe("decoder", {"train": {"threads": 0, "steps": 4}})
    train_tiny(open_recipe, tmp_path / "told")
    assert asked == [], "the environment of the tests names a number"
    monkeypatch.setattr(job, "environment_fixes_threads", lambda: False)
    train_tiny(open_recipe, tmp_path / "measured")
    assert asked == [2]
    assert load_recorded(tmp_path / "measured" / "recipe.toml").train.threads == 1
    train_tiny(tiny_recipe("decoder", {"train": {"threads": 1, "steps": 4}}), tmp_path / "named")
    assert asked == [2]
