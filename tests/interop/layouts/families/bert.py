"""BERT: its models, and what it does not have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.family import RUN, Family, Tensors
from tfcli.interop.families.bert import BERT
from tfcli.interop.families.layout import ACTIVATIONS

PUBLISHED: dict[str, Any] = {
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
"""bert_config.json of the base model, which is older than `model_type` and `layer_norm_eps`."""


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 4))
    return {
        "vocab_size": draw(st.integers(2, 30)),
        "max_position_embeddings": draw(st.integers(2, 17)),
        "hidden_size": heads * draw(st.integers(8, 12)),
        "num_attention_heads": heads,
        "num_hidden_layers": draw(st.integers(1, 3)),
        "intermediate_size": draw(st.integers(1, 33)),
        "hidden_act": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-5, 1e-2])),
        "type_vocab_size": draw(st.integers(1, 3)),
        "tie_word_embeddings": draw(st.booleans()),
    }


def old_files(state: Tensors) -> Iterator[Tensors]:
    """Without the head's matrix, which is tied; with names of TensorFlow; with the numbers of positions."""
    tied = {name: tensor for name, tensor in state.items() if ".decoder." not in name}
    endings = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = {}
    for name, tensor in tied.items():
        ending = next((ending for ending in endings if name.endswith(ending)), "")
        old[name.removesuffix(ending) + endings.get(ending, "")] = tensor
    yield from (state, tied, old, old | {"bert.embeddings.position_ids": torch.arange(9)[None, :]})


def both(*names: str) -> list[str]:
    return [f"{name}.{part}" for name in names for part in ("bias", "weight")]


FAMILY = Family(
    layout=BERT,
    config_class="BertConfig",
    model_class="BertForMaskedLM",
    small={
        "vocab_size": 11,
        "hidden_size": 12,
        "intermediate_size": 20,
        "max_position_embeddings": 9,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
    },
    settings=settings,
    run=replace(
        RUN,
        architecture="encoder",
        positions="learned",
        embedding_norm=True,
        norm="layernorm",
        norm_placement="post",
        activation="gelu",
        head="transform",
    ),
    exports=[
        {},
        {"head_bias": True, "attention_bias": True, "token_types": 1},
        {"attention_output_bias": True, "feed_forward_bias": True, "norm_bias": False, "token_types": 3},
        {"norm_affine": False, "tie_embeddings": False, "head_bias": True},
        {"tie_embeddings": False, "activation": "relu2", "d_ff": 5},
        {"activation": "gelu_tanh", "dropout": 0.1, "attention_dropout": 0.2, "head_dim": 4, "num_kv_heads": 3},
        {"head": "none", "token_types": 2},
        {"head": "none", "tie_embeddings": False},
    ],
    own=("embedding_norm", "head", "head_bias"),
    inexpressible=[
        ("architecture", {"architecture": "decoder"}),
        ("positions", {"positions": "alibi"}),
        ("position_merge", {"position_merge": "query_key"}),
        ("position_offset", {"position_offset": 2}),
        ("embedding_norm", {"embedding_norm": False}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_placement", {"norm_placement": "pre"}),
        ("attention_score", {"attention_score": "dot"}),
        ("activation", {"activation": "geglu"}),
        ("head", {"head": "linear"}),
    ],
    refused=[
        ({"hidden_act": "quick_gelu"}, "hidden_act"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "is_decoder"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"directionality": "left-to-right"}, "directionality"),
        ({"type_vocab_size": 0}, "type_vocab_size"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers"),
        ({"hidden_dropout_prob": "0.1"}, "hidden_dropout_prob"),
        ({"tie_word_embeddings": 0}, "tie_word_embeddings"),
        ({"embedding_size": 128}, "embedding_size"),
    ],
    broken=[
        (
            {},
            {"cls.predictions.decoder.weight": torch.zeros(11, 12)},
            "'cls.predictions.decoder.weight' is not 'bert.embeddings.word_embeddings.weight'",
        ),
        (
            {},
            {"cls.predictions.decoder.bias": torch.zeros(11)},
            "'cls.predictions.decoder.bias' is not 'cls.predictions.bias'",
        ),
        ({}, {"bert.encoder.layer.0.crossattention.self.query.bias": torch.zeros(12)}, "layer.0.crossattention"),
        (
            {},
            {"bert.encoder.layer.0.attention.self.distance_embedding.weight": torch.zeros(17, 4)},
            "distance_embedding",
        ),
        ({}, {"bert.embeddings.position_embeddings.weight": torch.zeros(8, 12)}, "position_embeddings.weight"),
        ({}, {"bert.embeddings.token_type_embeddings.weight": None}, "lacks the tensor 'bert.embeddings.token_type"),
        ({}, {"cls.predictions.transform.dense.bias": None}, "lacks the tensor 'cls.predictions.transform.dense.bias'"),
    ],
    left_over=[
        ("BertForPreTraining", {}, both("bert.pooler.dense", "cls.seq_relationship")),
        ("BertForTokenClassification", {}, both("classifier")),
        ("BertForQuestionAnswering", {}, both("qa_outputs")),
    ],
    old_files=old_files,
    # The body's 108,891,648; a dense layer 768 · 769, a norm of 2 · 768 and 30,522 biases in the head.
    published=[(PUBLISHED, 109_514_298)],
)
