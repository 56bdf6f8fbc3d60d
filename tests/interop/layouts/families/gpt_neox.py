"""GPT-NeoX: its models, and what it does not have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.families.llama import SCALINGS
from tests.interop.layouts.family import RUN, Family, Tensors
from tfcli.interop.families.gpt import GPT_NEOX
from tfcli.interop.families.layout import ACTIVATIONS

PUBLISHED: dict[str, Any] = {
    "architectures": ["GPTNeoXForCausalLM"],
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_act": "gelu",
    "hidden_size": 512,
    "initializer_range": 0.02,
    "intermediate_size": 2048,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 2048,
    "model_type": "gpt_neox",
    "num_attention_heads": 8,
    "num_hidden_layers": 6,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "use_parallel_residual": True,
    "vocab_size": 50304,
}
"""config.json of Pythia 70M, whose published tensors have 70,426,624 numbers."""


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 4))
    size = draw(st.sampled_from([8, 10, 12, 14]))
    turned = draw(st.sampled_from([4, 6, 8]))
    scaling = draw(st.sampled_from([{"rope_type": "default"}, {"rope_type": "default"}, *SCALINGS]))
    share = (turned + 0.5) / size if turned < size else 1.0
    return {
        "vocab_size": draw(st.integers(2, 30)),
        "max_position_embeddings": draw(st.integers(2, 17)),
        "hidden_size": heads * size,
        "num_attention_heads": heads,
        "num_hidden_layers": draw(st.integers(1, 3)),
        "intermediate_size": draw(st.integers(1, 33)),
        "hidden_act": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "layer_norm_eps": draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        "rope_parameters": {
            "rope_theta": draw(st.sampled_from([50.0, 1e4])),
            "partial_rotary_factor": share,
            **scaling,
        },
        "use_parallel_residual": draw(st.booleans()),
        "attention_bias": draw(st.booleans()),
        "tie_word_embeddings": draw(st.booleans()),
    }


def old_files(state: Tensors) -> Iterator[Tensors]:
    """Without the prefix and the head, which is tied; with masks and wavelengths."""
    tied = {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}
    base = {name.removeprefix("gpt_neox."): tensor for name, tensor in tied.items()}
    constants = {f"gpt_neox.layers.{i}.attention.bias": torch.ones(1, 1, 9, 9).tril() for i in range(2)}
    constants |= {f"gpt_neox.layers.{i}.attention.masked_bias": torch.tensor(-1e9) for i in range(2)}
    constants |= {f"gpt_neox.layers.{i}.attention.rotary_emb.inv_freq": torch.ones(1) for i in range(2)}
    yield from (state, tied, base, tied | constants)


FAMILY = Family(
    layout=GPT_NEOX,
    config_class="GPTNeoXConfig",
    model_class="GPTNeoXForCausalLM",
    small={
        "vocab_size": 11,
        "max_position_embeddings": 9,
        "hidden_size": 24,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "intermediate_size": 10,
    },
    settings=settings,
    run=replace(RUN, norm="layernorm", activation="gelu"),
    in_float64=None,  # It computes angles and softmax in float32 whatever the type of its weights.
    exports=[
        {},
        {"parallel_residual": True, "position_dim": 2},
        {"attention_bias": True, "feed_forward_bias": True, "position_base": 50.0, "position_dim": 4},
        {"parallel_residual": True, "norm_affine": False, "tie_embeddings": False, "norm_bias": False},
        {"position_scaling": 2.0, "activation": "relu2", "d_ff": 5, "d_model": 42, "position_dim": 6},
        {"position_scaling_kind": "yarn", "position_scaling": 2.0, "position_gain": 1.3},
    ],
    inexpressible=[
        ("architecture", {"architecture": "encoder"}),
        ("positions", {"positions": "learned"}),
        ("position_layout", {"position_layout": "interleaved"}),
        ("rotary_gain", {"position_gain": 1.3}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_placement", {"norm_placement": "post"}),
        ("attention_output_bias", {"attention_output_bias": True}),
        ("attention_score", {"attention_score": "dot"}),
        ("activation", {"activation": "swiglu"}),
    ],
    refused=[
        ({"hidden_act": "quick_gelu"}, "hidden_act"),
        ({"rope_parameters": None, "rotary_pct": 0.5, "hidden_size": 18}, "rotary_pct"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.2}}, "partial_rotary_factor"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "rope_type = 'longrope'"),
        ({"use_parallel_residual": 1}, "use_parallel_residual"),
        ({"hidden_size": None}, "hidden_size"),
        ({"multi_query": True}, "multi_query"),
    ],
    broken=[
        ({"tie_word_embeddings": True}, {"embed_out.weight": torch.zeros(11, 24)}, "'embed_out.weight' is not"),
        ({}, {"gpt_neox.layers.1.mlp.dense_4h_to_h.bias": None}, "lacks the tensor 'gpt_neox.layers.1.mlp.dense_4h_to"),
        ({}, {"gpt_neox.layers.1.attention.query_key_value.weight": torch.zeros(72, 20)}, "query_key_value.weight"),
    ],
    left_over=[
        ("GPTNeoXForTokenClassification", {"tie_word_embeddings": True}, ["classifier.bias", "classifier.weight"])
    ],
    old_settings={"tie_word_embeddings": True},
    old_files=old_files,
    published=[(PUBLISHED, 70_426_624)],
)
