"""The first GPT: its models, and what it does not have."""

from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.family import RUN, Family
from tfcli.interop.families.gpt import OPENAI_GPT

PUBLISHED: dict[str, Any] = {
    "afn": "gelu",
    "architectures": ["OpenAIGPTLMHeadModel"],
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "openai-gpt",
    "n_ctx": 512,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 512,
    "n_special": 0,
    "predict_special_tokens": True,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "vocab_size": 40478,
}


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 4))
    return {
        "vocab_size": draw(st.integers(2, 30)),
        "n_positions": draw(st.integers(2, 17)),
        "n_embd": heads * draw(st.integers(8, 12)),
        "n_head": heads,
        "n_layer": draw(st.integers(1, 3)),
        "afn": draw(st.sampled_from(["relu", "silu", "gelu", "swish"])),
        "layer_norm_epsilon": draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        "tie_word_embeddings": draw(st.booleans()),
    }


FAMILY = Family(
    layout=OPENAI_GPT,
    config_class="OpenAIGPTConfig",
    model_class="OpenAIGPTLMHeadModel",
    small={"vocab_size": 11, "n_positions": 9, "n_embd": 12, "n_head": 3, "n_layer": 2},
    settings=settings,
    run=replace(RUN, positions="learned", norm="layernorm", norm_placement="post", activation="relu", d_ff=None),
    exports=[
        {},
        {"attention_bias": True},
        {"attention_output_bias": True, "feed_forward_bias": True, "norm_bias": False},
        {"norm_affine": False, "tie_embeddings": False, "activation": "silu"},
    ],
    inexpressible=[
        ("architecture", {"architecture": "encoder"}),
        ("positions", {"positions": "rotary"}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_placement", {"norm_placement": "pre"}),
        ("inner_size", {"d_ff": 5}),
        ("activation", {"activation": "gelu"}),
    ],
    refused=[({"afn": "gelu_new"}, "afn"), ({"n_ctx": 8}, "n_ctx"), ({"rotary_dim": 4}, "rotary_dim")],
    broken=[({}, {"transformer.h.1.mlp.c_fc.bias": None}, "lacks the tensor 'transformer.h.1.mlp.c_fc.bias'")],
    left_over=[
        ("OpenAIGPTDoubleHeadsModel", {}, [f"multiple_choice_head.summary.{part}" for part in ("bias", "weight")])
    ],
    old_files=lambda state: [
        state,
        {name.removeprefix("transformer."): tensor for name, tensor in state.items() if name != "lm_head.weight"}
        | {f"h.{i}.attn.bias": torch.ones(1, 1, 9, 9).tril() for i in range(2)},
    ],
    published=[(PUBLISHED, 116_534_784)],
)
