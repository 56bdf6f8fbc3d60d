"""Llama and the decoders of its layout: their models, and what each of them does not have."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.family import RUN, Family, Tensors
from tfcli.interop.families.llama import GRANITE, LLAMA, MISTRAL, QWEN2, QWEN3

LAYOUTS = {layout.name: layout for layout in (LLAMA, MISTRAL, QWEN2, QWEN3, GRANITE)}

SMALL: dict[str, Any] = {
    "vocab_size": 11,
    "hidden_size": 12,
    "intermediate_size": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 4,
    "max_position_embeddings": 9,
    "rms_norm_eps": 1e-5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}

RUNS = dict.fromkeys(LAYOUTS, RUN) | {
    "qwen2": replace(RUN, attention_bias=True, attention_output_bias=False),
    "qwen3": replace(RUN, query_key_norm=True),
}
"""A run of every family's variant."""

PUBLISHED = SMALL | {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
}
"""Llama 2 7B (Touvron et al. 2023), whose published tensors have 6,738,415,616 numbers."""

EXPORTS: list[tuple[dict[str, Any], str]] = [
    ({}, "llama mistral granite"),
    ({"scale_embeddings": None}, "granite"),
    ({"scale_logits": True, "attention_score": "dot"}, "granite"),
    ({"attention_bias": True, "feed_forward_bias": True, "tie_embeddings": False}, "llama granite"),
    ({"attention_bias": True, "attention_output_bias": False}, "qwen2"),
    ({"attention_bias": True, "attention_output_bias": False, "sliding_window": 3}, "qwen2"),
    ({"sliding_window": 3, "position_scaling": 2.0}, "mistral"),
    ({"position_scaling_kind": "llama3", "position_scaling": 8.0, "position_low_turns": 0.5}, "llama mistral granite"),
    ({"position_scaling_kind": "yarn", "position_scaling": 4.0, "position_trained_len": 7}, "llama mistral granite"),
    ({"position_scaling_kind": "dynamic", "position_scaling": 2.0}, "llama mistral granite"),
    ({"query_key_norm": True, "activation": "geglu", "norm_affine": False}, "qwen3"),
    ({"query_key_norm": True, "attention_bias": True, "sliding_window": 3, "norm_eps": 1e-2}, "qwen3"),
    ({"num_heads": 5, "head_dim": 2, "activation": "geglu_tanh"}, "mistral granite"),
    ({"num_kv_heads": 1, "head_dim": 6, "d_ff": 5, "norm_affine": False}, "llama mistral granite"),
]
"""Changes of `RUN`, and the families that have the variant. By default a run scales its embeddings."""

INEXPRESSIBLE: list[tuple[str, dict[str, Any], Mapping[str, Any] | tuple[str, ...]]] = [
    ("architecture", {"architecture": "encoder"}, LAYOUTS),
    ("positions", {"positions": "alibi"}, LAYOUTS),
    ("position_layout", {"position_layout": "interleaved"}, LAYOUTS),
    ("position_dim", {"position_dim": 2}, LAYOUTS),
    ("rotary_gain", {"position_gain": 1.5}, LAYOUTS),
    ("norm", {"norm": "layernorm"}, LAYOUTS),
    ("norm_placement", {"norm_placement": "post"}, LAYOUTS),
    ("residuals", {"residuals": False}, LAYOUTS),
    ("parallel_residual", {"parallel_residual": True}, LAYOUTS),
    ("attention_score", {"attention_score": "dot"}, ("llama", "mistral")),
    ("attention_score", {"attention_score": "parameter_free"}, ("llama", "mistral", "granite")),
    ("attention_bias", {"attention_bias": True}, ("mistral",)),
    ("attention_bias", {"attention_bias": False}, ("qwen2",)),
    ("attention_output_bias", {"attention_output_bias": True}, ("llama", "mistral", "granite")),
    ("attention_output_bias", {"attention_output_bias": None}, ("qwen2",)),
    ("feed_forward_bias", {"feed_forward_bias": True}, ("mistral",)),
    ("query_key_norm", {"query_key_norm": False}, ("qwen3",)),
    ("activation", {"activation": "gelu"}, LAYOUTS),
    ("num_heads", {"num_heads": 5, "head_dim": 2}, ("llama",)),
]
"""The setting that is named, a change of the family's run, and the families that do not have it."""

TRAINED_ON_7 = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 7}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"hidden_act": "relu"}, "hidden_act"),
    ("llama", {"pretraining_tp": 2}, "pretraining_tp"),
    ("llama", {"rope_interleaved": True}, "rope_interleaved"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("llama", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
    ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 8.0, "truncate": False}}, "truncate"),
    ("llama", {"original_max_position_embeddings": 5, "rope_parameters": TRAINED_ON_7}, "original_max_position"),
    ("llama", {"rope_parameters": {"rope_type": "default", "factor": 8.0}}, "factor"),
    ("llama", {"rope_parameters": {"rope_type": "linear"}}, "factor"),
    ("llama", {"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "full_attention"),
    ("llama", {"rope_parameters": None, "rope_scaling": {"type": "dynamic"}}, "factor"),
    ("llama", {"rope_parameters": None, "rope_scaling": {"rope_type": "yarn"}}, "factor"),
    ("llama", {"rope_parameters": None, "rope_scaling": {"type": "longrope"}}, "type = 'longrope'"),
    ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling"),
    ("llama", {"sliding_window": 4}, "sliding_window"),
    ("llama", {"quantization_config": {"bits": 4}}, "quantization_config"),
    ("llama", {"rms_norm_eps": None}, "rms_norm_eps"),
    ("llama", {"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ("mistral", {"sliding_window": 0}, "sliding_window"),
    ("mistral", {"layer_types": ["sliding_attention", "full_attention"]}, "layer_types"),
    ("mistral", {"attention_bias": True}, "attention_bias"),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}, "max_window_layers"),
    ("qwen2", {"layer_types": ["sliding_attention", "full_attention"]}, "layer_types"),
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 0, "sliding_window": None}, "sliding_window"),
    ("qwen2", {"use_mrope": True}, "use_mrope"),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}, "max_window_layers"),
    ("qwen3", {"layer_types": ["sliding_attention"] * 2}, "layer_types"),
    ("granite", {"logits_scaling": 0}, "logits_scaling"),
]
"""Family, settings that mean another model, and what is named."""

BROKEN: list[tuple[dict[str, Any], dict[str, torch.Tensor | None], str]] = [
    ({}, {"lm_head.weight": None}, "lacks the tensor 'lm_head.weight'"),
    ({}, {"model.layers.1.mlp.up_proj.weight": None}, "lacks the tensor 'model.layers.1.mlp.up_proj.weight'"),
    ({}, {"model.layers.1.self_attn.q_proj.bias": torch.zeros(12)}, "layers.1.self_attn.q_proj.bias"),
    ({}, {"model.layers.0.self_attn.q_norm.weight": torch.ones(4)}, "layers.0.self_attn.q_norm.weight"),
    ({}, {"model.layers.2.input_layernorm.weight": torch.ones(12)}, "layers.2.input_layernorm.weight"),
    ({}, {"model.layers.1.self_attn.k_proj.weight": torch.zeros(8, 12)}, "stack.layers.1.attention.key.weight|k_proj"),
]

WINDOWS = [{"use_sliding_window": used, "sliding_window": 4, "max_window_layers": 0} for used in (False, True)]


SCALINGS: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 1.5},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 0.25,
        "high_freq_factor": 1.5,
        "original_max_position_embeddings": 7,
    },
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 100, "attention_factor": 1.5},
    {"rope_type": "yarn", "factor": 8.0, "beta_fast": 3.0, "beta_slow": 0.2, "original_max_position_embeddings": 40},
    {"rope_type": "yarn", "factor": 40.0, "mscale": 0.5, "mscale_all_dim": 1.2},
]
"""What stretches positions."""


@st.composite
def common_settings(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes and variants that all families have."""
    kv_heads = draw(st.integers(1, 3))
    heads = kv_heads * draw(st.integers(1, 3))
    rope = {"rope_theta": draw(st.sampled_from([100.0, 10_000.0, 5e5])), "rope_type": "default"}
    rope |= draw(st.sampled_from([{"rope_type": "default"}, *SCALINGS]))
    return {
        "vocab_size": draw(st.integers(2, 30)),
        "hidden_size": heads * draw(st.integers(8, 12)),
        "intermediate_size": draw(st.integers(1, 33)),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        # One pair of dimensions has no base that could grow.
        "head_dim": 2 * draw(st.integers(2 if rope["rope_type"] == "dynamic" else 1, 5)),
        "hidden_act": draw(st.sampled_from(["silu", "gelu", "gelu_new", "gelu_pytorch_tanh"])),
        "max_position_embeddings": draw(st.integers(2, 19)),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        "rope_parameters": rope,
        "tie_word_embeddings": draw(st.booleans()),
        "attention_dropout": draw(st.sampled_from([0.0, 0.1])),
        "initializer_range": draw(st.sampled_from([0.02, 0.5])),
    }


@st.composite
def settings(draw: st.DrawFn, family: str) -> dict[str, Any]:
    """Settings of the family, with what it alone has."""
    values = draw(common_settings())
    if family in ("llama", "qwen3", "granite"):
        values["attention_bias"] = draw(st.booleans())
    if family in ("llama", "granite"):
        values["mlp_bias"] = draw(st.booleans())
    if family == "mistral":
        values["sliding_window"] = draw(st.none() | st.integers(1, 9))
    if family in ("qwen2", "qwen3") and draw(st.booleans()):
        values |= {"use_sliding_window": True, "sliding_window": draw(st.integers(1, 9)), "max_window_layers": 0}
    if family == "granite":
        root = values["hidden_size"] ** 0.5
        values["embedding_multiplier"] = draw(st.sampled_from([1.0, root]))
        values["attention_multiplier"] = draw(st.sampled_from([1.0, values["head_dim"] ** -0.5]))
        values["logits_scaling"] = draw(st.sampled_from([1.0, root]))
    return values


def old_files(state: Tensors) -> Iterator[Tensors]:
    """Without the head, which is tied; without the prefix; with the wavelengths of the rotation."""
    tied = {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}
    base = {name.removeprefix("model."): tensor for name, tensor in tied.items()}
    waves = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(2) for i in range(2)}
    yield from (state, tied, base, tied | waves)


def family(name: str, prefix: str, own: tuple[str, ...] = (), **others: Any) -> Family:
    return Family(
        layout=LAYOUTS[name],
        config_class=f"{prefix}Config",
        model_class=f"{prefix}ForCausalLM",
        small=SMALL,
        settings=partial(settings, name),
        run=RUNS[name],
        in_float64=None,  # These models compute norms and angles in float32 whatever the type of their weights.
        exports=[changes for changes, families in EXPORTS if name in families.split()],
        own=("num_kv_heads", "head_dim", *own),
        inexpressible=[(setting, changes) for setting, changes, families in INEXPRESSIBLE if name in families],
        refused=[(changes, named) for family, changes, named in REFUSED if family == name],
        old_settings={"tie_word_embeddings": True},
        old_files=old_files,
        **others,
    )


FAMILIES = [
    family(
        "llama",
        "Llama",
        broken=BROKEN,
        left_over=[("LlamaForSequenceClassification", {"tie_word_embeddings": True}, ["score.weight"])],
        published=[(PUBLISHED, 6_738_415_616)],
    ),
    family("mistral", "Mistral", own=("sliding_window",)),
    family("qwen2", "Qwen2", own=("sliding_window",), variants=WINDOWS),
    family("qwen3", "Qwen3", own=("query_key_norm", "sliding_window"), variants=WINDOWS),
    family("granite", "Granite", own=("scale_embeddings", "scale_logits")),
]
