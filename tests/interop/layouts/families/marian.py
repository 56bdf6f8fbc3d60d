"""Marian: its models, and what it does not have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.families import sides
from tests.interop.layouts.family import RUN, Family, Tensors
from tfcli.interop.families.bart import MARIAN

PUBLISHED: dict[str, Any] = {
    "activation_dropout": 0.0,
    "activation_function": "swish",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"],
    "attention_dropout": 0.0,
    "bad_words_ids": [[58100]],
    "bos_token_id": 0,
    "classif_dropout": 0.0,
    "classifier_dropout": 0.0,
    "d_model": 512,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 2048,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 6,
    "decoder_start_token_id": 58100,
    "decoder_vocab_size": 58101,
    "dropout": 0.1,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 6,
    "eos_token_id": 0,
    "extra_pos_embeddings": 58101,
    "forced_eos_token_id": 0,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    "max_length": 512,
    "max_position_embeddings": 512,
    "model_type": "marian",
    "normalize_before": False,
    "normalize_embedding": False,
    "num_beams": 6,
    "num_hidden_layers": 6,
    "pad_token_id": 58100,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "static_position_embeddings": True,
    "transformers_version": "4.22.0.dev0",
    "use_cache": True,
    "vocab_size": 58101,
}
"""config.json of an OPUS-MT model, English to German."""


TYING = [(True, True), (False, True), (False, False)]
"""Whether the sides share their embeddings, and whether the head shares the target's."""


def tying(share: bool, tie: bool) -> dict[str, bool]:
    return {"share_encoder_decoder_embeddings": share, "tie_word_embeddings": tie}


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """The table of positions, half sines and half cosines, needs an even size."""
    values = draw(sides.settings(multiple=2))
    last = values["vocab_size"] - 1
    return {**values, "pad_token_id": last, "decoder_start_token_id": last, **tying(*draw(st.sampled_from(TYING)))}


def old_files(state: Tensors) -> Iterator[Tensors]:
    """With the table of positions, without it, and without the head's bias."""
    saved = {name: tensor for name, tensor in state.items() if "embed_" not in name and "lm_head" not in name}
    without = {name: tensor for name, tensor in saved.items() if name != "final_logits_bias"}
    assert "model.encoder.embed_positions.weight" in state and "model.encoder.embed_positions.weight" not in saved
    yield from (state, saved, without)


FAMILY = Family(
    layout=MARIAN,
    config_class="MarianConfig",
    model_class="MarianMTModel",
    small=sides.SMALL | {"pad_token_id": 5, "decoder_start_token_id": 5},
    settings=settings,
    run=replace(
        RUN,
        architecture="encoder-decoder",
        num_layers=1,
        num_decoder_layers=2,
        positions="sinusoidal",
        position_layout="halves",
        norm="layernorm",
        norm_placement="post",
        activation="relu",
        scale_embeddings=None,
    ),
    exports=[
        {},
        {"attention_bias": True, "head_bias": True, "share_embeddings": False},
        {"attention_output_bias": True, "feed_forward_bias": True, "tie_embeddings": False, "share_embeddings": False},
        {"norm_affine": False, "activation": "relu2", "d_ff": 5},
        {"norm_bias": False, "initialization": "vaswani2017", "scale_embeddings": False},
        {"activation": "silu", "dropout": 0.1, "attention_dropout": 0.2, "head_dim": 4, "num_kv_heads": 3},
    ],
    own=("head_bias", "scale_embeddings"),
    inexpressible=[
        ("architecture", {"architecture": "encoder", "num_decoder_layers": None}),
        ("positions", {"positions": "rotary"}),
        ("position_merge", {"position_merge": "query_key"}),
        ("position_layout", {"position_layout": None}),
        ("position_base", {"position_base": 100.0}),
        ("position_offset", {"position_offset": 1}),
        ("position_scaling", {"position_scaling": 2.0}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_placement", {"norm_placement": "pre"}),
        ("attention_score", {"attention_score": "additive"}),
        ("activation", {"activation": "geglu"}),
        ("tie_embeddings", {"tie_embeddings": False}),
    ],
    refused=[
        *sides.REFUSED,
        ({"activation_function": "tanh"}, "activation_function"),
        ({"decoder_vocab_size": 12}, "decoder_vocab_size"),
        ({"num_hidden_layers": 1}, "num_hidden_layers"),
        ({"normalize_embedding": True}, "normalize_embedding"),
        ({"static_position_embeddings": False}, "static_position_embeddings"),
        ({"share_encoder_decoder_embeddings": "yes"}, "share_encoder_decoder_embeddings"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps"),
    ],
    broken=[
        (tying(True, True), {"lm_head.weight": torch.zeros(11, 12)}, "'lm_head.weight' is not 'model.shared.weight'"),
        (
            tying(False, True),
            {"lm_head.weight": torch.zeros(11, 12)},
            "'lm_head.weight' is not 'model.decoder.embed_tokens",
        ),
        (tying(False, False), {"lm_head.weight": None}, "lacks the tensor 'lm_head.weight'"),
        (tying(False, True), {"model.shared.weight": torch.zeros(11, 12)}, "model.shared.weight"),
        (
            tying(True, True),
            {"model.encoder.layernorm_embedding.weight": torch.ones(12)},
            "encoder.layernorm_embedding",
        ),
        (
            tying(True, True),
            {"model.encoder.layers.1.fc2.bias": None},
            "lacks the tensor 'model.encoder.layers.1.fc2.bias'",
        ),
    ],
    old_files=old_files,
    # As in BART, the head's bias is no parameter there: one number for each of 58,101 tokens.
    published=[(PUBLISHED, 73_886_208 + 58_101)],
    variants=[tying(*both) for both in TYING],
)
