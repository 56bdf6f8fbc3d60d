"""RoBERTa: its models, and what it does not have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.families import bert
from tests.interop.layouts.family import Family, Tensors
from tfcli.interop.families.bert import ROBERTA

PUBLISHED: dict[str, Any] = {
    "architectures": ["RobertaForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "model_type": "roberta",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "vocab_size": 50265,
}
"""config.json of the base model."""


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """BERT's, with a padding anywhere in the vocabulary but its last place, and room for two positions behind it."""
    values = draw(bert.settings())
    pad = draw(st.integers(0, values["vocab_size"] - 2))
    rows = pad + 1 + values["max_position_embeddings"]
    return values | {"hidden_act": "gelu", "pad_token_id": pad, "max_position_embeddings": rows}


def old_files(state: Tensors) -> Iterator[Tensors]:
    """Without the head's matrix, which is tied; with the numbers of positions."""
    tied = {name: tensor for name, tensor in state.items() if ".decoder." not in name}
    yield from (state, tied, tied | {"roberta.embeddings.position_ids": torch.arange(9)[None, :]})


FAMILY = Family(
    layout=ROBERTA,
    config_class="RobertaConfig",
    model_class="RobertaForMaskedLM",
    small=bert.FAMILY.small | {"max_position_embeddings": 12},
    settings=settings,
    run=replace(bert.FAMILY.run, position_offset=1),
    exports=[
        {},
        {"head_bias": True, "attention_bias": True, "token_types": 1},
        {"attention_output_bias": True, "feed_forward_bias": True, "norm_bias": False, "token_types": 3},
        {"norm_affine": False, "tie_embeddings": False, "head_bias": True},
        {"head": "none", "token_types": 2},
    ],
    own=("embedding_norm", "head", "head_bias"),
    inexpressible=[
        ("architecture", {"architecture": "decoder"}),
        ("positions", {"positions": "alibi", "position_offset": 0}),
        ("position_offset", {"position_offset": 2}),
        ("embedding_norm", {"embedding_norm": False}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_placement", {"norm_placement": "pre"}),
        ("activation", {"activation": "relu"}),
        ("head", {"head": "linear"}),
    ],
    refused=[
        ({"hidden_act": "relu"}, "hidden_act"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"max_position_embeddings": 2}, "max_position_embeddings = 2"),
        ({"is_decoder": True}, "is_decoder"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"embedding_size": 128}, "embedding_size"),
    ],
    broken=[
        ({}, {"lm_head.decoder.weight": torch.zeros(11, 12)}, "'lm_head.decoder.weight' is not 'roberta.embeddings"),
        ({}, {"roberta.embeddings.position_embeddings.weight": torch.zeros(8, 12)}, "position_embeddings.weight"),
        ({}, {"lm_head.dense.bias": None}, "lacks the tensor 'lm_head.dense.bias'"),
    ],
    left_over=[
        ("RobertaForTokenClassification", {}, bert.both("classifier")),
        ("RobertaForQuestionAnswering", {}, bert.both("qa_outputs")),
    ],
    old_files=old_files,
    # The embeddings' 39,000,576, twelve layers of 7,087,872; a dense layer 768 · 769, a norm, and 50,265 biases.
    published=[(PUBLISHED, 124_697_433)],
)
