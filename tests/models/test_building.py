"""What a model is made of: how many parameters, how they start, and that every preset and size is a valid
recipe."""

from dataclasses import replace

import pytest
import torch

from tfcli.errors import UsageError
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.build import ARCHITECTURES as CLASSES
from tfcli.models.build import build_model
from tfcli.models.presets import PRESETS, SIZES, preset, size
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection

from .small import ARCHITECTURES, count, section


def on_meta(wanted: ModelSection):
    """A model of shapes without numbers: any size at no cost."""
    with torch.device("meta"):
        return CLASSES[wanted.architecture](wanted)


def test_gpt2_has_the_published_number_of_parameters():
    """V·D + T·D + 12 layers of (4 D² + 4 D) attention, (2·4 D² + 5 D) feed-forward, 4 D norms, and 2 D of a
    last norm.

    38,597,376 + 786,432 + 12 · 7,087,872 + 1,536 = 124,439,808.
    """
    wanted = replace(build_recipe(preset("gpt2")).model, vocab_size=50_257)
    assert on_meta(wanted).num_parameters() == 124_439_808


def test_vaswani2017_has_the_parameters_of_the_paper():
    """With D = 512, F = 2048 and V = 37,000 shared by both sides and the output, no bias in attention:

    embeddings 37,000 · 512 = 18,944,000; attention 4 D² = 1,048,576; feed-forward 2 D F + F + D = 2,099,712;
    a norm 2 D = 1,024. Encoder layer: 1 attention, 1 feed-forward, 2 norms = 3,150,336. Decoder layer: 2, 1,
    3 = 4,199,936. 18,944,000 + 6 · (3,150,336 + 4,199,936) = 63,045,632, the 65 million of table 3 in round
    numbers.
    """
    wanted = replace(build_recipe(preset("vaswani2017")).model, vocab_size=37_000)
    assert on_meta(wanted).num_parameters() == 63_045_632


def test_llama_layout_by_formula():
    """Grouped heads, three matrices in the feed-forward, gains alone in the norms, an output matrix of its
    own.

    D = 16, H = 4, 2 key-value heads of 4, F = 40 (8/3 · 16 = 42.7 → 48 unless given), L = 3, V = 11: a layer
    = 16·16 + 2·16·8 + 16·16 + 3·16·40 + 2·16 = 2,720; 3 · 2,720 + 16 + 2 · 11 · 16 = 8,528.
    """
    wanted = section(num_heads=4, num_kv_heads=2, d_ff=40, num_layers=3, tie_embeddings=False)
    assert build_model(wanted).num_parameters() == 8_528


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tied_embeddings_are_one_matrix_that_counts_once(architecture: str):
    tied, untied = (build_model(section(architecture, tie_embeddings=tie)) for tie in (True, False))
    assert tied.head.weight is tied.embedding.weight
    assert untied.num_parameters() - tied.num_parameters() == 11 * 16
    assert tied.num_parameters() == count(tied)


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
    try:
        recipe = build_recipe({"train": {"seed": seed}})
    except UsageError as error:
        assert seed >= 2**63
        assert "train.seed" in str(error)
    else:
        build_model(section(), seed=recipe.train.seed)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_initial_weights_have_their_standard_deviations(architecture: str):
    """0.02 for matrices, 0.02 / √(2·8) = 0.005 for those that add to the residual stream of 8 layers; biases
    0, gains 1. Over ≥ 4,096 numbers the measured deviation lies within 5 %."""
    wanted = section(
        architecture,
        d_model=64,
        num_layers=8,
        vocab_size=200,
        max_seq_len=64,
        positions="learned",
        norm="layernorm",
        attention_bias=True,
        feed_forward_bias=True,
        tie_embeddings=False,
        attention_init="normal",
    )
    for name, parameter in build_model(wanted).named_parameters():
        if "norm" in name:
            assert (parameter == (0 if name.endswith("bias") else 1)).all(), name
        elif name.endswith("bias"):
            assert (parameter == 0).all(), name
        else:
            residual = name.endswith("output.weight")
            assert parameter.std().item() == pytest.approx(0.005 if residual else 0.02, rel=0.05), name
            assert abs(parameter.mean().item()) < 0.002, name


HEADS = [
    {},
    {"num_heads": 1, "num_layers": 3, "attention_bias": True},
    {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8},
    {"num_heads": 4, "num_kv_heads": 1, "head_dim": 16},
]


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_copying_attention_begins_by_passing_on_what_it_attends_to(architecture: str, heads: dict[str, int]):
    """With W^v W^vᵀ = I and W^o = √(2/L) · W^vᵀ, shared by the query heads of a group, attention to a single token
    returns √(2/L) · x, for L = 8 one half. Key-value heads that together have as many dimensions as x lose nothing
    of it."""
    wanted = section(architecture, **{"num_layers": 8, **heads})
    attentions = [part for part in build_model(wanted).modules() if isinstance(part, MultiHeadAttention)]
    assert len(attentions) == wanted.num_layers * (3 if architecture == "encoder-decoder" else 1)
    generator = torch.Generator().manual_seed(0)
    query, token = (torch.randn(2, 1, 16, generator=generator) for _ in range(2))
    gain = (2 / wanted.num_layers) ** 0.5
    for attention in attentions:
        values = attention.value.weight
        torch.testing.assert_close(values @ values.T, torch.eye(16), atol=1e-5, rtol=0)
        if wanted.kv_heads == wanted.num_heads:
            torch.testing.assert_close(attention.output.weight, gain * values.T)
        # As cross-attention, and as self-attention of one token.
        torch.testing.assert_close(attention(query, token), gain * token, atol=1e-5, rtol=0)
        torch.testing.assert_close(attention(token, causal=True), gain * token, atol=1e-5, rtol=0)


def test_copying_attention_returns_the_mean_of_what_it_weighs_alike():
    """Queries of 0 weigh all keys alike: half the mean for L = 8."""
    (attention, *_) = (m for m in build_model(section(num_layers=8)).modules() if isinstance(m, MultiHeadAttention))
    memory = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0))
    mean = memory.mean(dim=1, keepdim=True)
    torch.testing.assert_close(attention(torch.zeros(1, 1, 16), memory), mean / 2, atol=1e-5, rtol=0)


def test_few_key_value_heads_pass_on_the_part_of_a_token_that_they_hold():
    """Two key-value heads of 4 hold 8 of 16 dimensions: a token within their rows passes, one at right angles to
    them is not seen."""
    wanted = section(num_layers=8, num_heads=4, num_kv_heads=2)
    attention = next(part for part in build_model(wanted).modules() if isinstance(part, MultiHeadAttention))
    values = attention.value.weight
    torch.testing.assert_close(values @ values.T, torch.eye(8), atol=1e-5, rtol=0)
    token = torch.randn(1, 1, 16, generator=torch.Generator().manual_seed(0))
    held = token @ values.T @ values
    assert held.norm() > 0.1 and (token - held).norm() > 0.1
    torch.testing.assert_close(attention(held), held / 2, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention(token - held), torch.zeros_like(token), atol=1e-5, rtol=0)


def test_layers_copy_by_different_matrices():
    values = [p for name, p in build_model(section()).named_parameters() if name.endswith("value.weight")]
    assert not torch.allclose(*values)


def test_scaled_embeddings_start_small_so_that_a_token_and_its_position_weigh_alike():
    """Times √64 they have a standard deviation of 1; the rows of a sinusoidal table have a mean square of
    1/2."""
    built = build_model(section(d_model=64, vocab_size=500, positions="sinusoidal"))
    assert (built.embedding.weight * 8).std().item() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_before_training_the_loss_is_that_of_guessing(architecture: str):
    """Small initial weights give nearly equal logits: the cross-entropy over 11 tokens starts near ln 11 =
    2.398."""
    built = build_model(section(architecture, attention_init="normal")).eval()
    ids = torch.arange(11)[None]
    logits = built(ids, ids) if architecture == "encoder-decoder" else built(ids)
    losses = torch.nn.functional.cross_entropy(logits[0], (ids[0] + 5) % 11)
    assert losses.item() == pytest.approx(2.398, abs=0.1)


SETTINGS = {f"preset {name}": settings for name, settings in PRESETS.items()} | {
    f"size {name}": settings for name, settings in SIZES.items()
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_preset_and_size_is_a_valid_recipe_that_builds(settings):
    wanted = build_recipe(settings).model
    for architecture in {wanted.architecture} if "architecture" in settings["model"] else ARCHITECTURES:
        built = on_meta(replace(wanted, architecture=architecture, vocab_size=100))
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
    counts = [on_meta(replace(build_recipe(s).model, vocab_size=2048)).num_parameters() for s in SIZES.values()]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize(("choose", "known"), [(preset, PRESETS), (size, SIZES)])
def test_an_unknown_name_is_refused_with_those_there_are(choose, known):
    with pytest.raises(UsageError) as caught:
        choose("gigantic")
    assert "'gigantic'" in str(caught.value)
    assert all(name in str(caught.value) for name in known)
