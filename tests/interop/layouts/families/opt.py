"""OPT: its models, and what it does not have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.family import RUN, Family, Tensors
from tfcli.interop.families.gpt import OPT
from tfcli.interop.families.layout import ACTIVATIONS

PUBLISHED: dict[str, Any] = {
    "_remove_final_layer_norm": False,
    "activation_function": "relu",
    "architectures": ["OPTForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 2,
    "do_layer_norm_before": True,
    "dropout": 0.1,
    "eos_token_id": 2,
    "ffn_dim": 3072,
    "hidden_size": 768,
    "init_std": 0.02,
    "layerdrop": 0.0,
    "max_position_embeddings": 2048,
    "model_type": "opt",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
    "prefix": "</s>",
    "torch_dtype": "float16",
    "use_cache": True,
    "vocab_size": 50272,
    "word_embed_proj_dim": 768,
}
"""config.json of the model of 125 million, which has 125,239,296."""


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 4))
    return {
        "vocab_size": draw(st.integers(2, 30)),
        "max_position_embeddings": draw(st.integers(2, 17)),
        "hidden_size": heads * draw(st.integers(8, 12)),
        "num_attention_heads": heads,
        "num_hidden_layers": draw(st.integers(1, 3)),
        "ffn_dim": draw(st.integers(1, 33)),
        "activation_function": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "do_layer_norm_before": draw(st.booleans()),
        "enable_bias": draw(st.booleans()),
        "layer_norm_elementwise_affine": draw(st.booleans()),
        "tie_word_embeddings": draw(st.booleans()),
    }


def old_files(state: Tensors) -> Iterator[Tensors]:
    """Without the head, which is tied; without the prefix."""
    tied = {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}
    yield from (state, tied, {name.removeprefix("model."): tensor for name, tensor in tied.items()})


FAMILY = Family(
    layout=OPT,
    config_class="OPTConfig",
    model_class="OPTForCausalLM",
    small={
        "vocab_size": 11,
        "max_position_embeddings": 9,
        "hidden_size": 12,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "ffn_dim": 10,
    },
    settings=settings,
    run=replace(RUN, positions="learned", position_offset=2, norm="layernorm", activation="relu"),
    in_float64=None,  # It computes softmax in float32 whatever the type of its weights.
    exports=[
        {},
        {"attention_bias": True, "norm_placement": "post"},
        {"attention_output_bias": True, "feed_forward_bias": True, "norm_bias": False},
        {"norm_affine": False, "tie_embeddings": False, "d_ff": 5},
        {"activation": "gelu_tanh", "dropout": 0.1, "attention_dropout": 0.2, "head_dim": 4, "num_kv_heads": 3},
    ],
    inexpressible=[
        ("architecture", {"architecture": "encoder"}),
        ("positions", {"positions": "rotary", "position_offset": 0}),
        ("position_offset", {"position_offset": 0}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_eps", {"norm_eps": 1e-6}),
        ("parallel_residual", {"parallel_residual": True}),
        ("attention_score", {"attention_score": "dot"}),
        ("activation", {"activation": "swiglu"}),
    ],
    refused=[
        ({"activation_function": "quick_gelu"}, "activation_function"),
        ({"word_embed_proj_dim": 8}, "word_embed_proj_dim"),
        ({"_remove_final_layer_norm": True}, "_remove_final_layer_norm"),
        ({"enable_bias": 1}, "enable_bias"),
        ({"n_inner": 4}, "n_inner"),
    ],
    broken=[
        ({}, {"lm_head.weight": torch.zeros(11, 12)}, "'lm_head.weight' is not 'model.decoder.embed_tokens.weight'"),
        ({}, {"model.decoder.project_in.weight": torch.zeros(12, 8)}, "project_in.weight"),
        ({}, {"model.decoder.embed_positions.weight": torch.zeros(9, 12)}, "embed_positions.weight"),
        ({}, {"model.decoder.final_layer_norm.bias": None}, "lacks the tensor 'model.decoder.final_layer_norm.bias'"),
    ],
    left_over=[("OPTForQuestionAnswering", {}, ["qa_outputs.bias", "qa_outputs.weight"])],
    old_files=old_files,
    published=[(PUBLISHED, 125_239_296)],
)
