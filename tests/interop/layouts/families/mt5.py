"""mT5: its models, and what it does not have."""

from dataclasses import replace
from typing import Any

from tests.interop.layouts.families import t5
from tfcli.interop.families.t5 import MT5

PUBLISHED: dict[str, Any] = {
    "architectures": ["MT5ForConditionalGeneration"],
    "d_ff": 1024,
    "d_kv": 64,
    "d_model": 512,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "feed_forward_proj": "gated-gelu",
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "mt5",
    "num_decoder_layers": 8,
    "num_heads": 6,
    "num_layers": 8,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "tie_word_embeddings": False,
    "tokenizer_class": "T5Tokenizer",
    "transformers_version": "4.10.0.dev0",
    "use_cache": True,
    "vocab_size": 250112,
}
"""config.json of the small model."""

OTHERWISE = {"scale_decoder_outputs", "tie_word_embeddings", "is_gated_act"}
UNSCALED = ("scale_decoder_outputs", "scale_logits")

FAMILY = replace(
    t5.FAMILY,
    layout=MT5,
    config_class="MT5Config",
    model_class="MT5ForConditionalGeneration",
    run=replace(t5.FAMILY.run, scale_logits=False, activation="geglu_tanh"),
    exports=[{name: value for name, value in row.items() if name not in UNSCALED} for row in t5.FAMILY.exports],
    own=("head_dim",),
    refused=[row for row in t5.FAMILY.refused if not OTHERWISE & row[0].keys()]
    + [({"is_gated_act": False}, "is_gated")],
    broken=[row for row in t5.FAMILY.broken if "encoder.block.1.layer.1.DenseReluDense.wi_0.weight" not in row[1]],
    published=[(PUBLISHED, 300_176_768)],
    variants=[{}, {"feed_forward_proj": "relu"}],
)
