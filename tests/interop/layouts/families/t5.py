"""T5, versions 1.0 and 1.1: its models, and what it does not have."""

from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts import reference
from tests.interop.layouts.family import RUN, Family, transformers
from tfcli.interop.families.t5 import T5

PUBLISHED: dict[str, Any] = {
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": 2048,
    "d_kv": 64,
    "d_model": 512,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_heads": 8,
    "num_layers": 6,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "task_specific_params": {"summarization": {"num_beams": 4, "prefix": "summarize: "}},
    "vocab_size": 32128,
}
"""config.json of the small model of version 1.0."""

BASE = {"d_ff": 3072, "d_model": 768, "num_heads": 12, "num_layers": 12}

FLAN: dict[str, Any] = PUBLISHED | {
    "d_ff": 1024,
    "num_heads": 6,
    "num_layers": 8,
    "num_decoder_layers": 8,
    "feed_forward_proj": "gated-gelu",
    "relative_attention_max_distance": 128,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "transformers_version": "4.23.1",
    "use_cache": True,
}
"""config.json of the small model of version 1.1, tuned on instructions."""

FLAN_BASE = {"d_ff": 2048, "d_model": 768, "num_heads": 12, "num_layers": 12, "num_decoder_layers": 12}


PROJECTIONS = ["relu", "gelu", "gelu_new", "silu", "gated-gelu", "gated-silu", "gated-swish", "gated-gelu_python"]


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """`tie_word_embeddings` decides about the scale of the logits alone: the library ties all that it makes."""
    buckets = 2 * draw(st.integers(2, 6))
    layers = draw(st.integers(1, 3))
    return {
        "vocab_size": draw(st.integers(3, 30)),
        "d_model": draw(st.integers(8, 20)),
        "d_kv": draw(st.integers(2, 7)),
        "d_ff": draw(st.integers(1, 33)),
        "num_layers": layers,
        "num_decoder_layers": draw(st.none() | st.integers(1, 3)),
        "num_heads": draw(st.integers(1, 4)),
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": buckets // 2 + draw(st.integers(1, 20)),
        "layer_norm_epsilon": draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        "feed_forward_proj": draw(st.sampled_from(PROJECTIONS)),
        "tie_word_embeddings": draw(st.booleans()),
    }


def model_of(config: Any, *, own_head: bool, seed: int = 0) -> Any:
    """A model whose head is the embedding matrix or, as in the files of version 1.1, another one.

    Scores are not scaled, and embeddings outweigh what sublayers add, as T5 is initialised: rounding does not grow.
    """
    kind = transformers.MT5ForConditionalGeneration if config.model_type == "mt5" else None
    model = (kind or transformers.T5ForConditionalGeneration)(config)
    if own_head:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    reference.lively(model, seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name == "shared.weight":
                weight *= 2
            elif name.endswith("Attention.q.weight"):
                weight /= config.d_kv**0.5
            elif name.endswith((".o.weight", ".wo.weight")):
                weight *= 0.3
    return model


@st.composite
def models(draw: st.DrawFn, family: Family) -> Any:
    config = family.config(**draw(settings()))
    return model_of(config, own_head=draw(st.booleans()), seed=draw(st.integers(0, 99)))


def with_norms_in_float64(theirs: Any) -> Any:
    """The model in float64, with PyTorch's own norms in the place of those that compute in float32."""
    for module in list(theirs.modules()):
        for name, norm in list(module.named_children()):
            if type(norm).__name__.endswith("T5LayerNorm"):
                exact = torch.nn.RMSNorm(len(norm.weight), norm.variance_epsilon)
                exact.weight = norm.weight
                setattr(module, name, exact)
    return theirs.to(torch.float64)


FAMILY = Family(
    layout=T5,
    config_class="T5Config",
    model_class="T5ForConditionalGeneration",
    small={"vocab_size": 11, "d_model": 12, "d_kv": 5, "d_ff": 10, "num_layers": 2, "num_heads": 3},
    settings=settings,
    run=replace(
        RUN,
        architecture="encoder-decoder",
        num_layers=1,
        num_decoder_layers=2,
        head_dim=5,
        positions="t5",
        position_buckets=8,
        position_max_distance=20,
        attention_score="dot",
        activation="relu",
        scale_logits=True,
    ),
    make=lambda _, config, seed: model_of(config, own_head=False, seed=seed),
    models=models,
    in_float64=with_norms_in_float64,
    longest=40,
    exports=[
        {},
        {"activation": "geglu_tanh", "tie_embeddings": False, "scale_logits": False},
        {"activation": "swiglu", "scale_logits": False},
        {"activation": "geglu", "tie_embeddings": False},
        {"activation": "relu2", "norm_affine": False, "norm_eps": 1e-5, "head_dim": None},
        {"activation": "silu", "dropout": 0.1, "attention_dropout": 0.2, "num_kv_heads": 3},
    ],
    own=("head_dim", "scale_logits"),
    inexpressible=[
        ("architecture", {"architecture": "decoder", "num_decoder_layers": None}),
        ("positions", {"positions": "alibi", "position_buckets": 32, "position_max_distance": 128}),
        ("norm", {"norm": "layernorm"}),
        ("norm_placement", {"norm_placement": "post"}),
        ("attention_score", {"attention_score": "scaled_dot"}),
        ("attention_bias", {"attention_bias": True}),
        ("attention_output_bias", {"attention_output_bias": True}),
        ("feed_forward_bias", {"feed_forward_bias": True}),
        ("share_embeddings", {"share_embeddings": False}),
    ],
    refused=[
        ({"feed_forward_proj": "gated-relu"}, "feed_forward_proj"),
        ({"feed_forward_proj": "gelu-gated"}, "feed_forward_proj"),
        ({"dense_act_fn": "gelu"}, "dense_act_fn"),
        ({"is_gated_act": True}, "is_gated_act"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings"),
        ({"scale_decoder_outputs": 0}, "scale_decoder_outputs"),
        ({"num_layers": 0}, "num_layers"),
        ({"num_hidden_layers": 3}, "num_hidden_layers"),
        ({"num_attention_heads": 6}, "num_attention_heads"),
        ({"hidden_size": 24}, "hidden_size"),
        ({"head_dim": 4}, "head_dim"),
        ({"d_kv": None}, "d_kv"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder"),
        ({"is_decoder": True}, "is_decoder"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"dropout_rate": -0.1}, "dropout_rate"),
        ({"relative_attention_num_buckets": 31}, "position_buckets"),
        ({"scalable_attention": True}, "scalable_attention"),
    ],
    broken=[
        (
            {},
            {"encoder.embed_tokens.weight": torch.zeros(11, 12)},
            "'encoder.embed_tokens.weight' is not 'shared.weight'",
        ),
        ({}, {"encoder.block.1.layer.1.DenseReluDense.wi_0.weight": torch.zeros(10, 12)}, "DenseReluDense.wi_0.weight"),
        ({}, {"decoder.block.0.layer.1.layer_norm.bias": torch.zeros(12)}, "decoder.block.0.layer.1.layer_norm.bias"),
        (
            {},
            {"decoder.block.1.layer.2.layer_norm.weight": None},
            "lacks the tensor 'decoder.block.1.layer.2.layer_norm",
        ),
        ({}, {"shared.weight": None, "lm_head.weight": torch.zeros(11, 12)}, "lacks the tensor 'shared.weight'"),
    ],
    published=[
        (PUBLISHED, 60_506_624),
        (PUBLISHED | BASE, 222_903_552),
        (FLAN, 76_961_152),
        (FLAN | FLAN_BASE, 247_577_856),
    ],
    variants=[{}, {"feed_forward_proj": "gated-gelu"}],
)
