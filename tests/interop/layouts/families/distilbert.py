"""DistilBERT: its models, and what it does not have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.interop.layouts.families import bert
from tests.interop.layouts.family import Family, Tensors
from tfcli.interop.families.bert import DISTILBERT
from tfcli.interop.families.layout import ACTIVATIONS

PUBLISHED: dict[str, Any] = {
    "activation": "gelu",
    "architectures": ["DistilBertForMaskedLM"],
    "attention_dropout": 0.1,
    "dim": 768,
    "dropout": 0.1,
    "hidden_dim": 3072,
    "initializer_range": 0.02,
    "max_position_embeddings": 512,
    "model_type": "distilbert",
    "n_heads": 12,
    "n_layers": 6,
    "pad_token_id": 0,
    "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2,
    "sinusoidal_pos_embds": False,
    "tie_weights_": True,
    "vocab_size": 30522,
}
"""config.json of the base model."""


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 4))
    return {
        "vocab_size": draw(st.integers(2, 30)),
        "max_position_embeddings": draw(st.integers(2, 17)),
        "dim": 2 * heads * draw(st.integers(4, 6)),
        "n_heads": heads,
        "n_layers": draw(st.integers(1, 3)),
        "hidden_dim": draw(st.integers(1, 33)),
        "activation": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "sinusoidal_pos_embds": draw(st.booleans()),
        "tie_word_embeddings": draw(st.booleans()),
    }


def old_files(state: Tensors) -> Iterator[Tensors]:
    """Without the head's matrix, which is tied; with the numbers of positions."""
    tied = {name: tensor for name, tensor in state.items() if name != "vocab_projector.weight"}
    yield from (state, tied, tied | {"distilbert.embeddings.position_ids": torch.arange(9)[None, :]})


FAMILY = Family(
    layout=DISTILBERT,
    config_class="DistilBertConfig",
    model_class="DistilBertForMaskedLM",
    small={"vocab_size": 11, "dim": 12, "hidden_dim": 20, "max_position_embeddings": 9, "n_heads": 3, "n_layers": 2},
    settings=settings,
    run=replace(bert.FAMILY.run, norm_eps=1e-12),
    exports=[
        {},
        {"head_bias": True, "attention_bias": True, "activation": "relu2"},
        {"attention_output_bias": True, "feed_forward_bias": True, "norm_bias": False},
        {"norm_affine": False, "tie_embeddings": False, "head_bias": True},
        {"head": "none"},
    ],
    own=("embedding_norm", "head", "head_bias"),
    inexpressible=[
        ("architecture", {"architecture": "decoder"}),
        ("positions", {"positions": "alibi"}),
        ("position_offset", {"position_offset": 2}),
        ("token_types", {"token_types": 2}),
        ("norm", {"norm": "rmsnorm"}),
        ("norm_eps", {"norm_eps": 1e-5}),
        ("norm_placement", {"norm_placement": "pre"}),
        ("activation", {"activation": "geglu"}),
        ("head", {"head": "linear"}),
    ],
    refused=[
        ({"activation": "quick_gelu"}, "activation"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"hidden_size": 13}, "hidden_size"),
        ({"n_heads": None}, "n_heads"),
        ({"type_vocab_size": 2}, "type_vocab_size"),
    ],
    broken=[
        ({}, {"vocab_projector.weight": torch.zeros(11, 12)}, "'vocab_projector.weight' is not 'distilbert.embedd"),
        ({}, {"distilbert.transformer.layer.1.ffn.lin2.bias": None}, "lacks the tensor 'distilbert.transformer"),
    ],
    left_over=[
        ("DistilBertForTokenClassification", {}, bert.both("classifier")),
        ("DistilBertForSequenceClassification", {}, bert.both("classifier", "pre_classifier")),
        ("DistilBertForQuestionAnswering", {}, bert.both("qa_outputs")),
    ],
    old_files=old_files,
    published=[(PUBLISHED, 66_985_530)],
)
