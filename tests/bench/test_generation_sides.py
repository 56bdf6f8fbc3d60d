"""Both sides make what whole passes without a cache make, from the same weights."""

from pathlib import Path

import pytest
import torch

from tests.support.bench import TINY
from tfcli.bench.transformers_side import TransformersGeneration
from tfcli.bench.work import ROLES, GenerationWork, SavedWeights, TfcliGeneration, synthetic_model
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe

NEW = 6


def tiny(name: str) -> Recipe:
    sizes = {"vocab_size": 200, "max_seq_len": 24, "d_model": 32, "head_dim": None, "num_kv_heads": None}
    return build_recipe(preset(name), TINY, {"model": sizes}).resolved()


def work(**changes: int) -> GenerationWork:
    return GenerationWork(**{"batch": 1, "prompt_tokens": 5, "new_tokens": NEW, "beam": 1, "seed": 3} | changes)


@torch.inference_mode()
def whole_passes(recipe: Recipe, prompt: list[int], new_tokens: int = NEW) -> list[int]:
    """The best token of a pass over everything, again and again."""
    model = synthetic_model(recipe.model, recipe.train.seed)
    is_decoder = recipe.model.architecture == "decoder"
    ids, before = (list(prompt), []) if is_decoder else ([ROLES.bos], [torch.tensor([ROLES.source(prompt)])])
    for _ in range(new_tokens):
        ids.append(int(model(*before, torch.tensor([ids]))[0, -1].argmax()))
    return ids[-new_tokens:]


def theirs(recipe: Recipe, given: GenerationWork, folder: Path) -> TransformersGeneration:
    pytest.importorskip("transformers")
    SavedWeights(recipe, folder).step()
    return TransformersGeneration(recipe, given, "float32", str(folder))


@pytest.mark.parametrize("name", ["modern", "gpt2", "marian"])
@pytest.mark.parametrize("batch", [1, 3])
def test_greedy(name: str, batch: int, tmp_path: Path):
    recipe, given = tiny(name), work(batch=batch)
    wanted = [whole_passes(recipe, prompt) for prompt in given.prompts(recipe.model.architecture, 200)]
    assert TfcliGeneration(recipe, given, "float32").step()["ids"] == wanted
    answer = theirs(recipe, given, tmp_path).step()
    assert answer["ids"] == wanted
    assert 0 < answer["prefill"] < 60 and 0 < answer["seconds"] < 60


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_beams_are_those_of_the_other_library(name: str, tmp_path: Path):
    recipe, given = tiny(name), work(batch=4, beam=5)
    ours, other = TfcliGeneration(recipe, given, "float32").step(), theirs(recipe, given, tmp_path).step()
    assert [len(ids) for ids in ours["ids"]] == [NEW] * 4
    assert ours["ids"] == other["ids"]
    greedy = TfcliGeneration(recipe, work(batch=4), "float32").step()["ids"]
    assert ours["ids"] != greedy, "beams that find nothing better show nothing"


def test_bfloat16_is_the_precision_of_the_weights(tmp_path: Path):
    recipe = tiny("gpt2")
    side = theirs(recipe, work(), tmp_path)
    half = TransformersGeneration(recipe, work(), "bfloat16", str(tmp_path))
    assert {weight.dtype for weight in side.model.parameters()} == {torch.float32}
    assert {weight.dtype for weight in half.model.parameters()} == {torch.bfloat16}
    ours = TfcliGeneration(recipe, work(), "bfloat16")
    assert ours.about()["precision"] == half.about()["precision"] == "bfloat16"
    assert len(ours.step()["ids"][0]) == len(half.step()["ids"][0]) == NEW


def test_another_model_makes_as_many_tokens():
    pytest.importorskip("transformers")
    recipe = build_recipe({"model": {"positions": "alibi"}}, TINY, {"model": {"max_seq_len": 24}}).resolved()
    side = TransformersGeneration(recipe, work(batch=2), "float32", None)
    assert side.about()["model"] == "GPT2LMHeadModel"
    assert [len(ids) for ids in side.step()["ids"]] == [NEW, NEW]
