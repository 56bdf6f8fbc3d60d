"""What is special to Llama and the decoders of its layout: the rotation in old files, windows, a published model."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.support.checkpoints import save_checkpoint
from tfcli.generation.kv_cache import DecodingCache
from tfcli.interop.checkpoint import CheckpointConfig
from tfcli.interop.exporting import export_run
from tfcli.interop.families.layout import CheckpointFamily, UnsupportedVariantError
from tfcli.interop.families.llama import LLAMA
from tfcli.interop.importing import import_run
from tfcli.interop.tensors import canonical_names, parameters_of_checkpoint
from tfcli.models.transformer import extend_context
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import load_run

from . import comparison, reference
from .families.llama import EXPORTS, FAMILIES, LAYOUTS, SCALINGS
from .family import RUN, Family, transformers

STORIES = Path(__file__).parents[4] / "shared" / "weights" / "stories260K"
FAMILY = FAMILIES[0]


def shared_stories() -> Path:
    if not STORIES.is_dir():
        pytest.skip(f"there is no folder {STORIES}: this test needs the published weights beside the repository")
    return STORIES


def test_a_trained_checkpoint_continues_a_story() -> None:
    """The expected values are those of `transformers`; the folder says of which release."""
    folder = shared_stories()
    expected = json.loads((folder / "expected.json").read_text())
    section = LLAMA.read(CheckpointConfig(json.loads((folder / "config.json").read_text()), reference.CONFIG))
    file = folder / "model.safetensors"
    taken, left_over = parameters_of_checkpoint(LLAMA, section, canonical_names(LLAMA, load_file(file)), file)
    assert left_over == []
    model = reference.filled(section, taken, torch.float32)
    ids = torch.tensor([expected["prompt_ids"]])
    with torch.no_grad():
        values, tokens = model(ids)[0, -1].topk(5)
        for _ in range(60):
            ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), dim=-1)
    assert tokens.tolist() == [token for token, _ in expected["last_position_top5"]]
    wanted = torch.tensor([value for _, value in expected["last_position_top5"]])
    torch.testing.assert_close(values, wanted, rtol=1e-5, atol=1e-5)
    assert ids[0].tolist() == expected["greedy_ids"]


def test_training_goes_on_as_the_family_trains() -> None:
    """Dropout acts on attention weights alone, and new weights would be drawn from one normal distribution."""
    section = reference.read_config(LLAMA, FAMILY.file(attention_dropout=0.1, initializer_range=0.03))
    rates = (section.embedding_dropout_rate, section.dropout, section.activation_dropout)
    assert (*rates, section.attention_dropout_rate) == (0.0, 0.0, 0.0, 0.1)
    assert (section.initialization, section.init_std) == ("bert", 0.03)


def test_old_files_say_how_positions_rotate_in_another_way() -> None:
    """`rope_theta` and `rope_scaling` of the older library are the `rope_parameters` of today's."""
    new = reference.read_config(
        LLAMA, FAMILY.file(rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0})
    )
    assert (new.position_base, new.position_scaling) == (500.0, 4.0)
    for scaling in ({"type": "linear", "factor": 4.0}, {"rope_type": "linear", "type": "linear", "factor": 4}):
        old = FAMILY.file(rope_theta=500, rope_scaling=scaling)
        del old["rope_parameters"]
        assert reference.read_config(LLAMA, old) == new


# The first context has no effect on either of these two.
WITHOUT_EFFECT = [
    {"rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 5} for kind in ("linear", "dynamic")
]


@pytest.mark.parametrize("scaling", [*SCALINGS, *WITHOUT_EFFECT], ids=str)
def test_positions_are_stretched_beyond_the_context(scaling: dict[str, Any]) -> None:
    """Of a context of 9: 20 tokens at once, and the last 3 of them one by one behind a cache. The angles of dynamic
    positions then change with every token, and keys stay as they were turned."""
    theirs = FAMILY.model(rope_parameters={"rope_theta": 100.0, **scaling})
    ours = reference.ours_of(LLAMA, theirs)
    extend_context(ours, 40)
    ids = comparison.random_ids(11, 2, 20)
    with torch.no_grad():
        comparison.assert_same(ours(ids), theirs(ids).logits)
        theirs = FAMILY.model(rope_parameters={"rope_theta": 100.0, **scaling})  # which remembers no longer text
        wanted = theirs(ids[:, :17], use_cache=True)
        cache = DecodingCache(ours, rows=2, capacity=20)
        comparison.assert_same(ours(ids[:, :17], cache=cache), wanted.logits)
        for at in range(17, 20):
            wanted = theirs(ids[:, at : at + 1], past_key_values=wanted.past_key_values, use_cache=True)
            comparison.assert_same(ours(ids[:, at : at + 1], cache=cache), wanted.logits)


def test_the_first_context_stands_beside_the_rotation_too() -> None:
    """As transformers 5 reads it for llama3 and yarn. Other kinds of stretching do not use it."""
    yarn = {"rope_theta": 100.0, "rope_type": "yarn", "factor": 2.0}
    beside = FAMILY.file(rope_parameters=yarn, original_max_position_embeddings=5)
    inside = FAMILY.file(rope_parameters={**yarn, "original_max_position_embeddings": 5})
    section = reference.read_config(LLAMA, beside)
    assert section == reference.read_config(LLAMA, inside)
    assert section.position_trained_len == 5
    plain = FAMILY.file(original_max_position_embeddings=5)
    assert reference.read_config(LLAMA, plain) == reference.read_config(LLAMA, FAMILY.file())


def test_settings_of_a_published_file_that_change_nothing() -> None:
    """Those that SmolLM2's config.json carries beside the layout's own."""
    extra: dict[str, Any] = {
        "is_llama_config": True,
        "rope_interleaved": False,
        "rope_scaling": None,
        "transformers.js_config": {},
    }
    assert reference.read_config(LLAMA, FAMILY.file(**extra)) == reference.read_config(LLAMA, FAMILY.file())


def expresses(layout: CheckpointFamily, section: ModelSection) -> bool:
    try:
        layout.write(section, reference.ROLES)
    except UnsupportedVariantError:
        return False
    return True


@pytest.mark.parametrize(("changes", "families"), EXPORTS)
def test_a_run_has_the_variant_of_these_families_alone(changes: dict[str, Any], families: str) -> None:
    section = dataclasses.replace(RUN, **changes)
    assert [name for name, layout in LAYOUTS.items() if expresses(layout, section)] == families.split()


def test_mistral_has_a_window_where_its_config_says_nothing_of_one_and_none_where_it_says_null() -> None:
    mistral = next(family for family in FAMILIES if family.layout.name == "mistral")
    for said, window in (({}, 4096), ({"sliding_window": None}, None), ({"sliding_window": 3}, 3)):
        assert reference.read_config(mistral.layout, {**mistral.small, **said}).sliding_window == window


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.layout.name)
def test_heads_of_keys_and_values_where_the_config_says_nothing_of_them_or_null(family: Family) -> None:
    """Some families have a number of their own, which null is not: it stands for as many as there are queries."""
    values = {**family.small, "num_attention_heads": 64, "hidden_size": 128}
    del values["num_key_value_heads"]
    today = getattr(transformers, family.config_class)(**values).num_key_value_heads
    assert reference.read_config(family.layout, values).kv_heads == today
    assert reference.read_config(family.layout, values | {"num_key_value_heads": None}).kv_heads == 64


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "factors",
    [
        {
            "embedding_multiplier": 12.0,
            "attention_multiplier": 1 / 128,
            "residual_multiplier": 0.22,
            "logits_scaling": 8,
        },
        {"attention_bias": True, "mlp_bias": True, "residual_multiplier": 2.0, "attention_multiplier": 0.3},
        {"logits_scaling": 3.0},
    ],
    ids=["published", "biases", "logits"],
)
def test_granite_with_factors_of_its_own(tied: bool, factors: dict[str, Any], tmp_path: Path) -> None:
    """They are multiplied into the matrices; so they leave again."""
    folder = save_checkpoint(tmp_path / "mine", "granite", tie_word_embeddings=tied, **factors)
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    export_run(run, tmp_path / "hf")
    ids = torch.arange(5, 27)[None]
    for path in (folder, tmp_path / "hf"):
        theirs = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
        torch.testing.assert_close(run.model(ids), theirs(ids).logits, rtol=1e-5, atol=1e-5)
