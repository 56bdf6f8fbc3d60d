"""EuroBERT: its models, and what it does not have."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.interop.layouts.families import llama
from tests.interop.layouts.family import RUN, Family
from tfcli.interop.families.llama import EUROBERT


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """Llama's, with activations of the family."""
    values = draw(llama.common_settings())
    activation = draw(st.sampled_from(["silu", "gelu", "gelu_pytorch_tanh"]))
    return {**values, "hidden_act": activation, "attention_bias": draw(st.booleans()), "mlp_bias": draw(st.booleans())}


FAMILY = Family(
    layout=EUROBERT,
    config_class="EuroBertConfig",
    model_class="EuroBertForMaskedLM",
    small=llama.SMALL | {"mask_token_id": 1},
    settings=settings,
    run=replace(RUN, architecture="encoder"),
    in_float64=None,  # It computes norms and angles in float32 whatever the type of its weights.
    exports=[
        {},
        {"attention_bias": True, "tie_embeddings": False, "activation": "geglu"},
        {"feed_forward_bias": True, "head_bias": True, "position_scaling": 2.0},
        {"num_kv_heads": 1, "head_dim": 6, "norm_affine": False, "activation": "geglu_tanh"},
        {"head": "none", "tie_embeddings": False},
    ],
    own=("num_kv_heads", "head_dim"),
    inexpressible=[
        ("architecture", {"architecture": "decoder"}),
        ("token_types", {"token_types": 2}),
        ("positions", {"positions": "learned"}),
        ("position_layout", {"position_layout": "interleaved"}),
        ("norm_placement", {"norm_placement": "post"}),
        ("attention_score", {"attention_score": "dot"}),
        ("attention_output_bias", {"attention_output_bias": True}),
        ("activation", {"activation": "gelu"}),
        ("head_bias", {"feed_forward_bias": True}),
        ("num_heads", {"num_heads": 5, "head_dim": 2}),
    ],
    refused=[
        ({"hidden_act": "relu"}, "hidden_act"),
        ({"hidden_dropout": 0.1}, "hidden_dropout"),
        ({"pretraining_tp": 2}, "pretraining_tp"),
        ({"rope_parameters": None, "rope_scaling": {"type": "longrope", "factor": 2.0}}, "type = 'longrope'"),
        ({"sliding_window": 4}, "sliding_window"),
        ({"is_causal": True}, "is_causal"),
        ({"mlp_bias": 1}, "mlp_bias"),
    ],
    broken=[({"mlp_bias": True}, {"lm_head.bias": None}, r"lacks the tensor 'lm_head\.bias'")],
    left_over=[
        (
            "EuroBertForSequenceClassification",
            {"tie_word_embeddings": True},
            ["classifier.bias", "classifier.weight", "dense.bias", "dense.weight"],
        )
    ],
    old_settings={"tie_word_embeddings": True},
    old_files=llama.old_files,
)
