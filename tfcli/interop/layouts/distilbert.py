"""DistilBERT (Sanh et al. 2019): BERT without token types, under names of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfcli.interop.activations import ACTIVATIONS, WRITTEN
from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts import bert
from tfcli.interop.layouts.parts import affine, norm, written_tokens
from tfcli.interop.layouts.plain import PLAIN
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_WORDS, _HEAD = "distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"
_NORM_EPS = 1e-12
"""Not a setting of the family."""

_WITHOUT_EFFECT = (
    # How the table of positions began, which is in the file all the same.
    "sinusoidal_pos_embds",
    # Of heads for other tasks, and written by old versions of the library.
    "qa_dropout", "seq_classif_dropout", "tie_weights_", "output_past",
)  # fmt: skip
_ALIASES = {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"}


def _read(config: CheckpointConfig) -> ModelSection:
    for alias, name in _ALIASES.items():
        config.fixed(alias, config.integer(name), reason=f"{name} is another name of the same")
    dropout = config.number("dropout", 0.1)
    section = replace(
        PLAIN,
        architecture="encoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=config.integer("max_position_embeddings"),
        d_model=config.integer("dim"),
        num_layers=config.integer("n_layers"),
        num_heads=config.integer("n_heads"),
        d_ff=config.integer("hidden_dim"),
        positions="learned",
        embedding_norm=True,
        norm="layernorm",
        norm_bias=True,
        norm_placement="post",
        norm_eps=_NORM_EPS,
        attention_bias=True,
        attention_output_bias=True,
        activation=config.choice("activation", ACTIVATIONS, "gelu"),
        feed_forward_bias=True,
        tie_embeddings=config.flag("tie_word_embeddings", True),
        head="transform",
        head_bias=True,
        dropout=dropout,
        embedding_dropout=dropout,
        attention_dropout=config.number("attention_dropout", 0.1),
        initialization="bert",
        init_std=config.number("initializer_range", 0.02),
    )
    config.finish(_WITHOUT_EFFECT)
    return section


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    size, inner, base = section.d_model, section.inner_size, "distilbert"
    maps = [
        TensorMap(_WORDS, ("embedding.weight",)),
        TensorMap(f"{base}.embeddings.position_embeddings.weight", ("embedding.positions",)),
        *norm(f"{base}.embeddings.LayerNorm", "embedding.norm", size),
    ]
    for i in range(section.num_layers):
        theirs, ours = f"{base}.transformer.layer.{i}", f"stack.layers.{i}"
        for letter, name in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
            maps += affine(f"{theirs}.attention.{letter}_lin", f"{ours}.attention.{name}", size=size)
        maps += [
            *norm(f"{theirs}.sa_layer_norm", f"{ours}.attention_residual.norm", size),
            *affine(f"{theirs}.ffn.lin1", f"{ours}.feed_forward.up", size=inner),
            *affine(f"{theirs}.ffn.lin2", f"{ours}.feed_forward.output", size=size),
            *norm(f"{theirs}.output_layer_norm", f"{ours}.feed_forward_residual.norm", size),
        ]
    if section.head == "none":
        return maps
    maps += [
        *affine("vocab_transform", "head.transform", size=size),
        *norm("vocab_layer_norm", "head.norm", size),
        TensorMap("vocab_projector.bias", ("head.bias",), absent=(0.0, (section.vocab_size or 0,))),
    ]
    return maps if section.tie_embeddings else [*maps, TensorMap(_HEAD, ("head.weight",))]


def _copies(section: ModelSection) -> Mapping[str, str]:
    return {_HEAD: _WORDS} if section.head != "none" and section.tie_embeddings else {}


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    bert.check(section, "DistilBERT")
    require(section, "DistilBERT has no token types", token_types=0)
    require(section, f"DistilBERT's norms add {_NORM_EPS}", norm_eps=_NORM_EPS)
    return {
        "model_type": "distilbert",
        "architectures": ["DistilBertModel" if section.head == "none" else "DistilBertForMaskedLM"],
        "vocab_size": section.vocab_size,
        "max_position_embeddings": section.max_seq_len,
        "dim": section.d_model,
        "n_layers": section.num_layers,
        "n_heads": section.num_heads,
        "hidden_dim": section.inner_size,
        "activation": WRITTEN[section.activation],
        "dropout": section.dropout,
        "attention_dropout": section.attention_dropout_rate,
        "initializer_range": section.init_std,
        "tie_word_embeddings": section.tie_embeddings,
        **written_tokens(roles),
    }


LAYOUT = Layout(
    name="distilbert",
    model_types=("distilbert",),
    prefix="distilbert.",
    read=_read,
    tensors=_tensors,
    write=_write,
    headless="vocab_",
    copies=_copies,
    constants=(r"distilbert\.embeddings\.position_ids",),
    heads=(r"pre_classifier\..*", r"classifier\..*", r"qa_outputs\..*"),
)
