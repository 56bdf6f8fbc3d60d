"""BART: its models, and what it does not have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from tests.interop.layouts.families.sides import REFUSED, SMALL, settings
from tests.interop.layouts.family import RUN, Family, Tensors
from tfcli.interop.families.bart import BART

PUBLISHED: dict[str, Any] = {
    "activation_dropout": 0.1,
    "activation_function": "gelu",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["BartModel"],
    "attention_dropout": 0.1,
    "bos_token_id": 0,
    "classif_dropout": 0.1,
    "classifier_dropout": 0.0,
    "d_model": 768,
    "decoder_attention_heads": 12,
    "decoder_ffn_dim": 3072,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 6,
    "decoder_start_token_id": 2,
    "dropout": 0.1,
    "early_stopping": True,
    "encoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 6,
    "eos_token_id": 2,
    "extra_pos_embeddings": 2,
    "force_bos_token_to_be_generated": False,
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    "max_position_embeddings": 1024,
    "model_type": "bart",
    "no_repeat_ngram_size": 3,
    "normalize_before": False,
    "normalize_embedding": True,
    "num_beams": 4,
    "num_hidden_layers": 6,
    "pad_token_id": 1,
    "scale_embedding": False,
    "static_position_embeddings": False,
    "task_specific_params": {"summarization": {"length_penalty": 1.0, "max_length": 128}},
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": 50265,
}
"""config.json of the base model, with the settings of its time."""

LARGE = {"d_model": 1024, "num_hidden_layers": 12} | {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in (("attention_heads", 16), ("ffn_dim", 4096), ("layers", 12))
}


def old_files(state: Tensors) -> Iterator[Tensors]:
    """Without what is tied; without prefixes and the head's bias; with the number of a format."""
    once = {name: tensor for name, tensor in state.items() if "embed_tokens" not in name and "lm_head" not in name}
    base = {name.removeprefix("model."): tensor for name, tensor in once.items() if name != "final_logits_bias"}
    versions = {"encoder.version": torch.tensor([3.0]), "decoder.version": torch.tensor([3.0])}
    yield from (state, once, base, base | versions)


FAMILY = Family(
    layout=BART,
    config_class="BartConfig",
    model_class="BartForConditionalGeneration",
    small=SMALL,
    settings=settings,
    run=replace(
        RUN,
        architecture="encoder-decoder",
        num_layers=1,
        num_decoder_layers=2,
        positions="learned",
        position_offset=2,
        embedding_norm=True,
        norm="layernorm",
        norm_placement="post",
        activation="gelu",
    ),
    exports=[
        {},
        {"attention_bias": True, "head_bias": True},
        {"attention_output_bias": True, "feed_forward_bias": True, "norm_bias": False},
        {"norm_affine": False, "activation": "relu2", "d_ff": 5},
        {"initialization": "gpt2", "scale_embeddings": True},
        {"activation": "gelu_tanh", "dropout": 0.1, "attention_dropout": 0.2, "head_dim": 4, "num_kv_heads": 3},
    ],
    own=("embedding_norm", "head_bias", "scale_embeddings"),
    inexpressible=[
        ("architecture", {"architecture": "decoder", "num_decoder_layers": None}),
        ("positions", {"positions": "sinusoidal"}),
        ("positions", {"positions": "rotary", "position_offset": 0}),
        ("position_merge", {"position_merge": "query_key"}),
        ("position_offset", {"position_offset": 0}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_eps", {"norm_eps": 1e-6}),
        ("norm_placement", {"norm_placement": "pre"}),
        ("embedding_norm", {"embedding_norm": False}),
        ("attention_score", {"attention_score": "dot"}),
        ("activation", {"activation": "swiglu"}),
        ("tie_embeddings", {"tie_embeddings": False}),
        ("share_embeddings", {"share_embeddings": False}),
    ],
    refused=[
        *REFUSED,
        ({"activation_function": "quick_gelu"}, "activation_function"),
        ({"decoder_attention_heads": None}, "decoder_attention_heads"),
        ({"encoder_layers": 0}, "encoder_layers"),
        ({"num_hidden_layers": 3}, "num_hidden_layers"),
        ({"num_attention_heads": 6}, "num_attention_heads"),
        ({"hidden_size": 24}, "hidden_size"),
        ({"normalize_embedding": False}, "normalize_embedding"),
        ({"static_position_embeddings": True}, "static_position_embeddings"),
        ({"do_blenderbot_90_layernorm": True}, "do_blenderbot_90_layernorm"),
        ({"extra_pos_embeddings": 0}, "extra_pos_embeddings"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"scale_embedding": 1}, "scale_embedding"),
        ({"dropout": -0.5}, "dropout"),
        ({"share_encoder_decoder_embeddings": True}, "share_encoder_decoder_embeddings"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ],
    broken=[
        ({}, {"lm_head.weight": torch.zeros(11, 12)}, "'lm_head.weight' is not 'model.shared.weight'"),
        ({}, {"model.decoder.embed_tokens.weight": torch.zeros(11, 12)}, "'model.decoder.embed_tokens.weight' is not"),
        ({}, {"model.encoder.layer_norm.weight": torch.ones(12)}, "model.encoder.layer_norm.weight"),
        ({}, {"model.encoder.layers.2.fc1.weight": torch.ones(10, 12)}, "model.encoder.layers.2.fc1.weight"),
        ({}, {"model.decoder.layers.0.fc1.bias": None}, "lacks the tensor 'model.decoder.layers.0.fc1.bias'"),
        ({}, {"final_logits_bias": torch.zeros(11)}, "final_logits_bias"),
    ],
    left_over=[
        (
            "BartForSequenceClassification",
            {},
            [f"classification_head.{part}.{kind}" for part in ("dense", "out_proj") for kind in ("bias", "weight")],
        )
    ],
    old_files=old_files,
    # The head's bias is a constant of zeros there and a parameter here, one number for each of 50,265 tokens.
    published=[(PUBLISHED, 139_420_416 + 50_265), (PUBLISHED | LARGE, 406_291_456 + 50_265)],
)
