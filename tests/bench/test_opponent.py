"""The model to compare with is the same one where `transformers` has it, and its differences are named where not."""

import pytest

from tests.support.bench import TINY
from tfcli.bench.train import bench_training
from tfcli.bench.transformers_side import TransformersLoop, opponent_of
from tfcli.errors import UsageError
from tfcli.models.build import meta_model
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe


def tiny(*settings: dict[str, dict[str, object]]) -> Recipe:
    return build_recipe(*settings[:1], TINY, *settings[1:]).resolved()


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt2", "GPT2LMHeadModel"),
        ("bert", "BertForMaskedLM"),
        ("bart", "BartForConditionalGeneration"),
        ("llama", "LlamaForCausalLM"),
    ],
)
def test_a_preset_of_a_family_is_trained_as_the_same_model(name: str, model: str):
    pytest.importorskip("transformers")
    recipe = tiny(preset(name))
    loop = TransformersLoop(recipe, "float32")
    assert loop.about() == {
        "model": model,
        "precision": "float32",
        "parameters": meta_model(recipe.model).num_parameters(),
    }
    opponent = opponent_of(recipe.model)
    assert opponent.config["architectures"] == [model]
    assert (opponent.section, opponent.differences) == (recipe.model, ())


def test_dropout_is_that_of_the_recipe():
    pytest.importorskip("transformers")
    for rate in (0.0, 0.25):
        model = TransformersLoop(tiny(preset("gpt2"), {"model": {"dropout": rate}}), "float32").model
        layer = model.transformer.h[0]
        assert {model.transformer.drop.p, layer.mlp.dropout.p, layer.attn.attn_dropout.p} == {rate}
        assert model.training


@pytest.mark.parametrize(
    ("architecture", "model"),
    [
        ("decoder", "GPT2LMHeadModel"),
        ("encoder", "BertForMaskedLM"),
        ("encoder-decoder", "BartForConditionalGeneration"),
    ],
)
def test_what_no_family_has_is_compared_at_the_same_sizes(architecture: str, model: str):
    section = tiny({"model": {"architecture": architecture, "positions": "sinusoidal", "activation": "relu2"}}).model
    opponent = opponent_of(section)
    assert opponent.config["architectures"] == [model]
    sizes = ("vocab_size", "max_seq_len", "d_model", "num_layers", "num_heads", "inner_size", "dropout")
    for name in sizes:
        assert getattr(opponent.section, name) == getattr(section, name), name
    differences = {one.setting: (one.ours, one.theirs) for one in opponent.differences}
    assert differences["positions"] == ("sinusoidal", "learned")
    assert differences["norm"] == ("rmsnorm", "layernorm")
    assert "vocab_size" not in differences


def test_every_difference_is_named_once():
    """No biases here, biases there: in attention that is one difference, though its output has a setting of its own."""
    section = tiny({"model": {"norm": "layernorm", "positions": "sinusoidal", "activation": "swiglu"}}).model
    assert [one.setting for one in opponent_of(section).differences] == [
        *("d_ff", "positions", "attention_bias", "activation", "feed_forward_bias"),
    ]


def test_the_library_is_wanted_before_any_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"There is no library transformers .*; install it: pip install transformers"):
        bench_training(tiny(preset("gpt2")), 1, transformers=True)
