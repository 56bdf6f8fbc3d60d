"""The loop that people write, step by step."""

import math

import pytest
import torch

from tests.support.bench import TINY
from tfcli.bench.transformers_side import TransformersLoop
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe
from tfcli.training.memory import synthetic_batches

pytest.importorskip("transformers")


def tiny(name: str, **train: object) -> Recipe:
    model = {"dropout": 0.0, "attention_dropout": 0.0}
    return build_recipe(preset(name), TINY, {"model": model, "train": train}).resolved()


@pytest.mark.parametrize("name", ["gpt2", "bert", "bart"])
def test_an_untrained_model_is_as_unsure_as_among_all_tokens(name: str):
    loop = TransformersLoop(tiny(name), "float32")
    assert loop.step()["loss"] == pytest.approx(math.log(24), abs=0.1)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_step_is_the_update_written_out(accumulation: int):
    """Against PyTorch by hand on the same batches: the mean of the losses, clipped to 1, one update of AdamW."""
    recipe = tiny("gpt2", grad_accumulation=accumulation, clip_norm=0.01)
    loop, other = TransformersLoop(recipe, "float32"), TransformersLoop(recipe, "float32").model
    optimizer, batches = torch.optim.AdamW(other.parameters(), lr=recipe.train.learning_rate), synthetic_batches(recipe)
    for _ in range(2):
        ids = [torch.as_tensor(next(batches).input_ids) for _ in range(accumulation)]
        loss = torch.stack([other(input_ids=one, labels=one).loss for one in ids]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), 0.01)
        optimizer.step()
        optimizer.zero_grad()
        assert loop.step()["loss"] == pytest.approx(loss.item(), rel=1e-5)
    for ours, theirs in zip(loop.model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_bfloat16_is_autocast_over_float32_weights():
    recipe = tiny("gpt2")
    losses = {precision: TransformersLoop(recipe, precision).step()["loss"] for precision in ("float32", "bfloat16")}
    assert losses["float32"] != losses["bfloat16"]
    assert losses["float32"] == pytest.approx(losses["bfloat16"], rel=0.01)
    loop = TransformersLoop(recipe, "bfloat16")
    loop.step()
    assert {parameter.dtype for parameter in loop.model.parameters()} == {torch.float32}
