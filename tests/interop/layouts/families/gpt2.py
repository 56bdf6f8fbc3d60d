"""GPT-2: its models, and what it does not have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.family import RUN, Family, Tensors
from tfcli.interop.families.gpt import GPT2
from tfcli.interop.families.layout import ACTIVATIONS

PUBLISHED: dict[str, Any] = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 50257,
}
"""config.json of the 124M model."""


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 4))
    return {
        "vocab_size": draw(st.integers(2, 30)),
        "n_positions": draw(st.integers(2, 17)),
        "n_embd": heads * draw(st.integers(8, 12)),
        "n_head": heads,
        "n_layer": draw(st.integers(1, 3)),
        "n_inner": draw(st.none() | st.integers(1, 33)),
        "activation_function": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "layer_norm_epsilon": draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        "scale_attn_weights": draw(st.booleans()),
        "tie_word_embeddings": draw(st.booleans()),
    }


def old_files(state: Tensors) -> Iterator[Tensors]:
    """Without the head, which is tied; without the prefix; with masks."""
    tied = {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}
    base = {name.removeprefix("transformer."): tensor for name, tensor in tied.items()}
    masks = {f"h.{i}.attn.bias": torch.ones(1, 1, 9, 9).tril() for i in range(2)}
    masks |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    yield from (state, tied, base, base | masks)


FAMILY = Family(
    layout=GPT2,
    config_class="GPT2Config",
    model_class="GPT2LMHeadModel",
    small={"vocab_size": 11, "n_positions": 9, "n_embd": 12, "n_head": 3, "n_layer": 2},
    settings=settings,
    run=replace(RUN, positions="learned", norm="layernorm", activation="gelu"),
    exports=[
        {},
        {"attention_bias": True},
        {"attention_output_bias": True, "feed_forward_bias": True, "norm_bias": False},
        {"norm_affine": False, "tie_embeddings": False, "attention_score": "dot"},
        {"activation": "relu2", "d_ff": 5, "initialization": "gpt2", "scale_embeddings": None},
        {"activation": "gelu_tanh", "dropout": 0.1, "attention_dropout": 0.2, "head_dim": 4, "num_kv_heads": 3},
    ],
    inexpressible=[
        ("architecture", {"architecture": "encoder"}),
        ("positions", {"positions": "rotary"}),
        ("position_merge", {"position_merge": "query_key"}),
        ("position_offset", {"position_offset": 2}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_placement", {"norm_placement": "post"}),
        ("residuals", {"residuals": False}),
        ("parallel_residual", {"parallel_residual": True}),
        ("attention_score", {"attention_score": "additive"}),
        ("activation", {"activation": "swiglu"}),
    ],
    refused=[
        ({"activation_function": "quick_gelu"}, "activation_function"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"n_ctx": 8}, "n_ctx"),
        ({"n_inner": -1}, "n_inner"),
        ({"n_embd": None}, "n_embd"),
        ({"n_layer": "2"}, "n_layer"),
        ({"scale_attn_weights": 1}, "scale_attn_weights"),
        ({"resid_pdrop": -0.5}, "resid_pdrop"),
        ({"rotary_dim": 4}, "rotary_dim"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ],
    broken=[
        ({}, {"lm_head.weight": torch.zeros(11, 12)}, "'lm_head.weight' is not 'transformer.wte.weight'"),
        ({}, {"transformer.h.0.crossattention.c_attn.weight": torch.zeros(12, 24)}, "h.0.crossattention.c_attn.weight"),
        ({}, {"transformer.h.1.attn.c_attn.weight": torch.zeros(12, 35)}, "h.1.attn.c_attn.weight"),
        ({}, {"transformer.h.1.mlp.c_fc.bias": None}, "lacks the tensor 'transformer.h.1.mlp.c_fc.bias'"),
    ],
    left_over=[("GPT2DoubleHeadsModel", {}, [f"multiple_choice_head.summary.{part}" for part in ("bias", "weight")])],
    old_files=old_files,
    # Radford et al. 2019 say 117M by mistake; this is what their file holds.
    published=[(PUBLISHED, 124_439_808)],
)
