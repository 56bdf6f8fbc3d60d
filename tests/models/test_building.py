"""What a model is made of: how many parameters, and that every preset and size is a valid recipe."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

from tfcli.errors import UsageError
from tfcli.layers import positions
from tfcli.models.build import build_model, meta_model
from tfcli.models.presets import PRESETS, SIZES, preset, size
from tfcli.recipe.loading import build_recipe

from .small import ARCHITECTURES, inputs, model, section


def test_gpt2_has_the_published_number_of_parameters():
    """V·D + T·D + 12 layers of (4 D² + 4 D) attention, (2·4 D² + 5 D) feed-forward, 4 D norms, and 2 D of a
    last norm.

    38,597,376 + 786,432 + 12 · 7,087,872 + 1,536 = 124,439,808.
    """
    wanted = replace(build_recipe(preset("gpt2")).model, vocab_size=50_257)
    assert meta_model(wanted).num_parameters() == 124_439_808


def test_vaswani2017_has_the_parameters_of_the_paper():
    """With D = 512, F = 2048 and V = 37,000 shared by both sides and the output, no bias in attention:

    embeddings 37,000 · 512 = 18,944,000; attention 4 D² = 1,048,576; feed-forward 2 D F + F + D = 2,099,712;
    a norm 2 D = 1,024. Encoder layer: 1 attention, 1 feed-forward, 2 norms = 3,150,336. Decoder layer: 2, 1,
    3 = 4,199,936. 18,944,000 + 6 · (3,150,336 + 4,199,936) = 63,045,632, the 65 million of table 3 in round
    numbers.
    """
    wanted = replace(build_recipe(preset("vaswani2017")).model, vocab_size=37_000)
    assert meta_model(wanted).num_parameters() == 63_045_632


PUBLISHED = {("bart", 50_265): 139_420_416, ("llama", 32_000): 6_738_415_616, ("t5", 32_128): 60_506_624}


@pytest.mark.parametrize(("name", "vocab_size", "count"), [(*key, count) for key, count in PUBLISHED.items()])
def test_presets_have_the_published_number_of_parameters(name: str, vocab_size: int, count: int):
    wanted = replace(build_recipe(preset(name)).model, vocab_size=vocab_size)
    assert meta_model(wanted).num_parameters() == count


def test_bert_has_the_published_number_of_parameters_with_and_without_its_pooler():
    """Without its head (transform D² + D, norm 2 D, a bias a token): 108,891,648. The pooler, which tfcli does not
    have, is one more D² + D: 109,482,240. D = 768."""
    wanted = replace(build_recipe(preset("bert")).model, vocab_size=30_522)
    bare = meta_model(replace(wanted, head="none", head_bias=False)).num_parameters()
    assert bare == 108_891_648
    assert bare + 768**2 + 768 == 109_482_240
    assert meta_model(wanted).num_parameters() == bare + 768**2 + 768 + 2 * 768 + 30_522


def test_a_size_takes_back_what_a_preset_says_of_its_own():
    """gpt2's feed-forward of 3072 belongs to its 768, and its 100,000 steps to its size."""
    shrunk = build_recipe(preset("gpt2"), size("tiny"))
    assert (shrunk.model.d_model, shrunk.model.inner_size) == (64, 256)
    assert (shrunk.model.positions, shrunk.model.activation) == ("learned", "gelu_tanh")
    assert shrunk.train.steps == build_recipe().train.steps


def test_modern_is_the_default():
    assert build_recipe(preset("modern")) == build_recipe()


def test_llama_layout_by_formula():
    """Grouped heads, three matrices in the feed-forward, gains alone in the norms, an output matrix of its
    own.

    D = 16, H = 4, 2 key-value heads of 4, F = 40 (8/3 · 16 = 42.7 → 48 unless given), L = 3, V = 11: a layer
    = 16·16 + 2·16·8 + 16·16 + 3·16·40 + 2·16 = 2,720; 3 · 2,720 + 16 + 2 · 11 · 16 = 8,528.
    """
    wanted = section(num_heads=4, num_kv_heads=2, d_ff=40, num_layers=3, tie_embeddings=False, query_key_norm=False)
    assert build_model(wanted).num_parameters() == 8_528


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_seed_decides_the_weights_and_nothing_else_does(architecture: str):
    torch.manual_seed(1)
    first = build_model(section(architecture), seed=5).state_dict()
    torch.manual_seed(2)
    again, other = build_model(section(architecture), seed=5), build_model(section(architecture), seed=6)
    assert all(torch.equal(first[name], tensor) for name, tensor in again.state_dict().items())
    assert not torch.equal(first["embedding.weight"], other.embedding.weight)


@pytest.mark.parametrize("seed", [0, 2**32, 2**63 - 1, 2**64, 10**30])
def test_every_seed_that_a_recipe_accepts_makes_a_model(seed: int):
    """PyTorch's generators take 64 bits: a larger seed is refused with the recipe or made to fit, never a
    traceback."""
    with nullcontext() if seed < 2**63 else pytest.raises(UsageError, match=r"train\.seed"):
        build_model(section(), seed=build_recipe({"train": {"seed": seed}}).train.seed)


SETTINGS = {f"preset {name}": settings for name, settings in PRESETS.items()} | {
    f"size {name}": settings for name, settings in SIZES.items()
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_preset_and_size_is_a_valid_recipe_that_builds(settings):
    wanted = build_recipe(settings).model
    for architecture in {wanted.architecture} if "architecture" in settings.get("model", {}) else ARCHITECTURES:
        built = meta_model(replace(wanted, architecture=architecture, vocab_size=100))
        assert built.num_parameters() > 0


@pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)
def test_a_preset_still_runs_when_a_size_shrinks_it(settings):
    """Sizes win over presets: every preset must stay valid under the smallest."""
    wanted = replace(build_recipe(settings, size("tiny")).model, vocab_size=20)
    ids = torch.arange(8)[None]
    built = build_model(wanted).eval()
    logits = built(ids, ids) if wanted.architecture == "encoder-decoder" else built(ids)
    assert logits.shape == (1, 8, 20)
    assert logits.isfinite().all()


def test_sizes_grow():
    counts = [meta_model(replace(build_recipe(s).model, vocab_size=2048)).num_parameters() for s in SIZES.values()]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize(("choose", "known"), [(preset, PRESETS), (size, SIZES)])
def test_an_unknown_name_is_refused_with_those_there_are(choose, known):
    with pytest.raises(UsageError) as caught:
        choose("gigantic")
    assert "'gigantic'" in str(caught.value)
    assert all(name in str(caught.value) for name in known)


TABLES = [
    {"positions": "rotary"},
    {"positions": "sinusoidal"},
    {"positions": "sinusoidal", "position_merge": "query_key"},
    {"positions": "sinusoidal", "position_offset": 2},
]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("settings", TABLES, ids=str)
def test_a_table_of_positions_is_as_long_as_what_was_read(
    architecture: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """A config.json that says 16 million takes no memory for a prompt of three words; and a table that grows in the
    middle, in inference mode, gives what one of the whole context gives, to be trained on as well."""
    whole = model(architecture, **settings)
    monkeypatch.setattr(positions, "_FIRST_ROWS", 3)
    short = model(architecture, **settings)
    vast = build_model(section(architecture, **settings, max_seq_len=1 << 24))
    assert sum(buffer.numel() for buffer in vast.buffers()) < 1000
    with torch.inference_mode():
        assert torch.equal(short(*inputs(architecture)), whole(*inputs(architecture)))
    assert 3 < max(len(buffer) for buffer in short.buffers()) < 16
    short(*inputs(architecture)).sum().backward()
