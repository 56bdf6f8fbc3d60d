"""Combinations without a meaning: each is refused with its own words, and the remedy that is named works."""

from dataclasses import fields
from typing import Any

import pytest

from tfcli.errors import UsageError
from tfcli.models.build import build_model
from tfcli.recipe.model import ModelSection

from .small import VOCAB, inputs

Settings = dict[str, Any]

SIZES: Settings = {"vocab_size": VOCAB, "max_seq_len": 16, "d_model": 16, "num_layers": 1, "num_heads": 2}
FREE: Settings = {"attention_score": "parameter_free"}
CONCAT: Settings = {"position_merge": "concat", "tie_embeddings": False}
NO_HEAD: Settings = {"architecture": "encoder", "head": "none"}

REFUSED: list[tuple[Settings, list[str], Settings]] = [
    ({"d_model": 18, "num_heads": 4}, ["model.d_model = 18", "model.num_heads = 4"], {"head_dim": 4}),
    ({"d_model": 18, "num_heads": 4}, ["choose a multiple"], {"d_model": 20, "positions": "none"}),
    ({"num_heads": 4, "num_kv_heads": 3}, ["model.num_heads = 4", "model.num_kv_heads = 3"], {"num_kv_heads": 2}),
    (
        {"attention_score": "additive"},
        ["Rotary", "model.attention_score = 'additive'", "model.positions"],
        {"positions": "alibi"},
    ),
    (FREE | {"num_kv_heads": 1}, ["no projections", "model.num_kv_heads"], {"num_kv_heads": None}),
    (FREE | {"head_dim": 10}, ["no projections", "model.head_dim"], {"head_dim": None}),
    (FREE | {"attention_bias": True}, ["no biases", "model.attention_bias"], {"attention_bias": False}),
    (FREE | {"attention_output_bias": True}, ["model.attention_output_bias"], {"attention_output_bias": None}),
    ({"head_dim": 7}, ["pairs", "head size 7", "model.head_dim"], {"head_dim": 8}),
    ({"head_dim": 7}, ["model.positions = 'sinusoidal'"], {"positions": "sinusoidal"}),
    ({"position_merge": "concat"}, ["model.position_merge = 'concat'", "'rotary'", "learned or sinusoidal"], CONCAT),
    ({"positions": "t5", "position_offset": 2}, ["model.position_offset = 2", "'t5'"], {"position_offset": 0}),
    ({"positions": "none", "position_dim": 2}, ["model.position_dim = 2", "'none'"], {"position_dim": None}),
    (
        {"positions": "learned", "position_layout": "halves"},
        ["model.position_layout = 'halves'", "rotary or sinusoidal"],
        {"positions": "sinusoidal"},
    ),
    ({"positions": "alibi", "position_base": 9.0}, ["model.position_base = 9.0", "'alibi'"], {"positions": "rotary"}),
    ({"positions": "learned", "position_scaling": 2.0}, ["model.position_scaling = 2.0"], {"positions": "sinusoidal"}),
    (
        {"positions": "sinusoidal", "position_scaling_kind": "yarn"},
        ["model.position_scaling_kind = 'yarn'"],
        {"positions": "rotary"},
    ),
    (
        {"positions": "learned", "position_gain": 2.0},
        ["model.position_gain = 2.0", "'learned'"],
        {"positions": "rotary"},
    ),
    ({"position_trained_len": 9}, ["model.position_trained_len = 9", "'linear'"], {"position_scaling_kind": "llama3"}),
    (
        {"position_scaling_kind": "yarn", "position_low_turns": 40.0},
        ["model.position_low_turns = 40", "32"],
        {"position_low_turns": 31.0},
    ),
    ({"position_scaling_kind": "dynamic", "position_dim": 2}, ["base that could grow"], {"position_dim": 4}),
    ({"position_dim": 3}, ["model.position_dim = 3", "pairs"], {"position_dim": 2}),
    ({"position_dim": 10, "head_dim": 8}, ["model.position_dim = 10", "a head of 8"], {"position_dim": 8}),
    (
        {"parallel_residual": True, "norm_placement": "post"},
        ["model.parallel_residual", "'post'"],
        {"norm_placement": "pre"},
    ),
    (
        {"parallel_residual": True, "residuals": False},
        ["model.parallel_residual", "model.residuals = false"],
        {"parallel_residual": False},
    ),
    (
        {"parallel_residual": True, "architecture": "encoder-decoder"},
        ["model.parallel_residual", "cross-attention"],
        {"parallel_residual": False},
    ),
    ({"position_buckets": 8}, ["model.position_buckets = 8", "choose t5"], {"positions": "t5"}),
    ({"position_max_distance": 99}, ["model.position_max_distance = 99", "choose t5"], {"positions": "t5"}),
    (
        {"positions": "learned", "position_dim": 4},
        ["model.position_dim = 4", "model.position_merge = 'concat'"],
        CONCAT,
    ),
    (
        {"positions": "learned", "position_dim": 16, **CONCAT},
        ["model.position_dim = 16", "model.d_model = 16"],
        {"position_dim": 15},
    ),
    (
        {"positions": "sinusoidal", "position_layout": "halves", "position_dim": 3, **CONCAT},
        ["even", "3 is odd", "'interleaved'"],
        {"position_layout": "interleaved"},
    ),
    (
        {"positions": "t5", "position_buckets": 9, "architecture": "encoder"},
        ["model.position_buckets = 9", "even"],
        {"position_buckets": 10},
    ),
    (
        {"positions": "t5", "position_buckets": 9, "architecture": "encoder-decoder"},
        ["model.position_buckets = 9", "even"],
        {"position_buckets": 10},
    ),
    (
        {"positions": "t5", "position_max_distance": 16},
        ["model.position_max_distance = 16", "choose more than 16"],
        {"position_max_distance": 17},
    ),
    (
        {"positions": "learned", "position_merge": "concat"},
        ["12 numbers", "16", "model.tie_embeddings = false"],
        {"tie_embeddings": False},
    ),
    ({"token_types": 2}, ["model.token_types = 2", "model.architecture = 'encoder'"], {"architecture": "encoder"}),
    (
        {"architecture": "encoder-decoder", "head": "none"},
        ["model.head = 'none'", "encoder-decoder", "'linear' or 'transform'"],
        {"head": "transform"},
    ),
    (NO_HEAD | {"head_bias": True}, ["no logits", "model.head_bias"], {"head_bias": False}),
    (NO_HEAD | {"scale_logits": True}, ["no logits", "model.scale_logits"], {"scale_logits": False}),
    ({"norm_bias": True}, ["model.norm_bias = true", "rmsnorm subtracts no mean"], {"norm_bias": None}),
    (
        {"norm": "layernorm", "norm_affine": False, "norm_bias": True},
        ["model.norm_bias = true", "model.norm_affine is off"],
        {"norm_bias": None},
    ),
    ({"num_decoder_layers": 2}, ["model.num_decoder_layers = 2", "model.num_layers"], {"num_decoder_layers": None}),
    ({"share_embeddings": False}, ["A decoder has one side", "model.share_embeddings"], {"share_embeddings": True}),
]


@pytest.mark.parametrize(("settings", "words", "remedy"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_refusal_names_the_settings_and_its_remedy_works(settings: Settings, words: list[str], remedy: Settings):
    with pytest.raises(UsageError) as caught:
        ModelSection(**(SIZES | settings))
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)
    remedied = SIZES | settings | remedy
    if "position_merge" in remedied and "positions" not in remedied:
        remedied["positions"] = "learned"
    section = ModelSection(**remedied)
    built = build_model(section)
    ids = inputs(section.architecture)
    assert (built.hidden(*ids) if section.head == "none" else built(*ids)).isfinite().all()


ODD_ONE_WAY: Settings = {"positions": "t5", "position_buckets": 9}
MEANINGFUL: list[Settings] = [
    ODD_ONE_WAY,
    {"head_dim": 7, "positions": "learned"},
    {"d_model": 15, "num_heads": 3, "positions": "sinusoidal"},
    {"d_model": 17, "num_heads": 4, "head_dim": 4},
    FREE | {"attention_output_bias": False},
    FREE | {"positions": "rotary", "query_key_norm": False},
    NO_HEAD | {"positions": "learned", "position_merge": "concat"},
    {"norm": "layernorm", "norm_affine": False, "norm_bias": False},
    {"architecture": "encoder-decoder", "share_embeddings": False, "num_decoder_layers": 2},
    {"positions": "learned", "position_base": 10_000.0},
]


@pytest.mark.parametrize("settings", MEANINGFUL, ids=str)
def test_what_only_looks_contradictory_works(settings: Settings):
    """Odd head sizes without rotation, odd buckets one way, biases that are off anyway, defaults written out."""
    section = ModelSection(**(SIZES | settings))
    built, ids = build_model(section), inputs(section.architecture)
    assert (built.hidden(*ids) if section.head == "none" else built(*ids)).isfinite().all()


def test_the_defaults_are_accepted_for_every_architecture():
    assert {field.name for field in fields(ModelSection)} >= SIZES.keys()
    for architecture in ("decoder", "encoder", "encoder-decoder"):
        build_model(ModelSection(architecture=architecture, vocab_size=VOCAB))  # type: ignore[arg-type]
