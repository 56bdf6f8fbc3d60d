"""Gemma: its models, and what it does not have."""

from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.families import llama
from tests.interop.layouts.family import RUN, Family
from tfcli.interop.families.llama import GEMMA

PUBLISHED: dict[str, Any] = {
    "architectures": ["GemmaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "head_dim": 256,
    "hidden_act": "gelu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 16384,
    "max_position_embeddings": 8192,
    "model_type": "gemma",
    "num_attention_heads": 8,
    "num_hidden_layers": 18,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 256000,
}
"""config.json of the model of 2 billion, which has 2,506,172,416."""


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    values = draw(llama.common_settings())
    activation = draw(st.sampled_from(["gelu", "gelu_pytorch_tanh", "gelu_new", "silu"]))
    return values | {"hidden_act": activation, "attention_bias": draw(st.booleans())}


FAMILY = Family(
    layout=GEMMA,
    config_class="GemmaConfig",
    model_class="GemmaForCausalLM",
    small=llama.SMALL,
    settings=settings,
    run=replace(RUN, scale_embeddings=True, activation="geglu_tanh"),
    in_float64=None,  # As Llama.
    exports=[
        {},
        {"scale_embeddings": None, "activation": "swiglu", "num_kv_heads": 1},
        {"attention_bias": True, "tie_embeddings": False, "position_scaling": 2.0},
        {"norm_affine": False, "head_dim": 6, "norm_eps": 1e-2},
        {"position_scaling_kind": "llama3", "position_scaling": 8.0, "d_ff": 5},
    ],
    own=("num_kv_heads", "head_dim", "scale_embeddings"),
    inexpressible=[
        ("architecture", {"architecture": "encoder"}),
        ("positions", {"positions": "alibi"}),
        ("scale_embeddings", {"scale_embeddings": False}),
        ("norm", {"norm": "layernorm"}),
        ("norm_placement", {"norm_placement": "post"}),
        ("attention_output_bias", {"attention_output_bias": True}),
        ("feed_forward_bias", {"feed_forward_bias": True}),
        ("activation", {"activation": "geglu"}),
    ],
    refused=[
        ({"hidden_act": "relu"}, "hidden_act"),
        ({"hidden_activation": "gelu"}, "hidden_activation"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ({"sliding_window": 4}, "sliding_window"),
    ],
    broken=[
        ({}, {"lm_head.weight": torch.zeros(11, 12)}, "'lm_head.weight' is not 'model.embed_tokens.weight'"),
        ({}, {"model.layers.0.pre_feedforward_layernorm.weight": torch.zeros(12)}, "pre_feedforward_layernorm"),
    ],
    left_over=[("GemmaForSequenceClassification", {}, ["score.weight"])],
    old_files=llama.old_files,
    published=[(PUBLISHED, 2_506_172_416)],
)
