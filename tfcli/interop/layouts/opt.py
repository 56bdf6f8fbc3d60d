"""OPT (Zhang et al. 2022): learned positions read from row 2 on, norms before the sublayers or, in one model, after."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfcli.interop.activations import ACTIVATIONS, WRITTEN
from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts import bart_family
from tfcli.interop.layouts.parts import norm, written_tokens
from tfcli.interop.layouts.plain import PLAIN, check_plain
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

_OFFSET = 2
_NORM_EPS = 1e-5
"""Not a setting of the family."""
_EMBEDDING, _HEAD = "model.decoder.embed_tokens.weight", "lm_head.weight"


def _read(config: CheckpointConfig) -> ModelSection:
    d_model, biased = config.integer("hidden_size"), config.flag("enable_bias", True)
    config.fixed("word_embed_proj_dim", d_model, reason="tfcli's embeddings are as large as its layers' vectors")
    config.fixed("_remove_final_layer_norm", False, reason="tfcli's layers with a norm before have one after the last")
    config.fixed("layerdrop", 0, reason="tfcli leaves out no layers in training")
    affine = config.flag("layer_norm_elementwise_affine", True)
    section = replace(
        PLAIN,
        architecture="decoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=config.integer("max_position_embeddings"),
        d_model=d_model,
        num_layers=config.integer("num_hidden_layers"),
        num_heads=config.integer("num_attention_heads"),
        d_ff=config.integer("ffn_dim"),
        positions="learned",
        position_offset=_OFFSET,
        norm="layernorm",
        norm_affine=affine,
        norm_bias=affine,
        norm_placement="pre" if config.flag("do_layer_norm_before", True) else "post",
        norm_eps=_NORM_EPS,
        attention_bias=biased,
        attention_output_bias=biased,
        activation=config.choice("activation_function", ACTIVATIONS, "relu"),
        feed_forward_bias=biased,
        tie_embeddings=config.flag("tie_word_embeddings", True),
        dropout=config.number("dropout", 0.1),
        embedding_dropout=0.0,
        attention_dropout=config.number("attention_dropout", 0.0),
        initialization="bert",
        init_std=config.number("init_std", 0.02),
    )
    config.finish()
    return section


def _is_biased(section: ModelSection) -> bool:
    return section.attention_bias or section.has_output_bias or section.feed_forward_bias


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    maps = [
        TensorMap(_EMBEDDING, ("embedding.weight",)),
        TensorMap("model.decoder.embed_positions.weight", ("embedding.positions",)),
    ]
    for i in range(section.num_layers):
        maps += bart_family.layer(f"model.decoder.layers.{i}", f"stack.layers.{i}", section, cross=False)
    if section.norm_placement == "pre":
        maps += norm("model.decoder.final_layer_norm", "stack.final_norm", section.d_model)
    there = {True: section.norm_affine, False: _is_biased(section)}
    maps = [one for one in maps if one.absent is None or there["layer_norm" in one.theirs]]
    return maps if section.tie_embeddings else [*maps, TensorMap(_HEAD, ("head.weight",))]


def _copies(section: ModelSection) -> Mapping[str, str]:
    return {_HEAD: _EMBEDDING} if section.tie_embeddings else {}


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    _check(section)
    return {
        "model_type": "opt",
        "architectures": ["OPTForCausalLM"],
        "vocab_size": section.vocab_size,
        "max_position_embeddings": section.max_seq_len,
        "hidden_size": section.d_model,
        "word_embed_proj_dim": section.d_model,
        "num_hidden_layers": section.num_layers,
        "num_attention_heads": section.num_heads,
        "ffn_dim": section.inner_size,
        "activation_function": WRITTEN[section.activation],
        "do_layer_norm_before": section.norm_placement == "pre",
        "layer_norm_elementwise_affine": section.norm_affine,
        "enable_bias": _is_biased(section),
        "dropout": section.dropout,
        "attention_dropout": section.attention_dropout_rate,
        "init_std": section.init_std,
        "tie_word_embeddings": section.tie_embeddings,
        "use_cache": True,
        **written_tokens(roles),
    }


def _check(section: ModelSection) -> None:
    require(section, "OPT is a decoder", architecture="decoder")
    require(section, "OPT learns its positions", positions="learned")
    require(section, f"OPT reads its table of positions from row {_OFFSET} on", position_offset=_OFFSET)
    require(section, "OPT has LayerNorm", norm="layernorm", norm_eps=_NORM_EPS)
    check_plain(section, "OPT", own=("position_offset",))


LAYOUT = Layout(
    name="opt",
    model_types=("opt",),
    prefix="model.",
    read=_read,
    tensors=_tensors,
    write=_write,
    copies=_copies,
    heads=(r"score\.weight", r"qa_outputs\..*"),
)
